//! The names of all rules as a tree of path components: one hash look-up a component, whatever the number of rules.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::expand::names;

/// A node of a [`Tree`].
pub(super) type NodeId = usize;

/// Stricter than this is no rank: nothing is below.
const NOTHING: u8 = u8::MAX;

/// Paths, each with what is known about it.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The rules (by index) whose patterns begin at a node, for the few nodes that have any.
    patterns: Vec<Vec<usize>>,
}

/// The children of a node by name. Compared byte by byte: a tree on a file system that folds case would need folded
/// keys here, and nowhere else.
type Children = HashMap<Box<[u8]>, NodeId, BuildHasherDefault<Fnv>>;

/// FNV-1a: on names of a few bytes several times as fast as the standard hash, which resists collisions that are chosen
/// on purpose. The names in here are chosen by the one whose policy it is.
#[derive(Debug, Clone, Copy)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    /// The length of a name, which says nothing that its bytes do not.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// What is known about one path. Small, because most rules make one and most are leaves.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    parent: NodeId,
    children: Option<Box<Children>>,
    /// The name (its index in the rules' list of names) that stands here.
    pub(super) name: Option<usize>,
    /// The index in [`Tree::patterns`].
    patterns: Option<usize>,
    /// The rank of the strictest access that any rule gives strictly below.
    pub(super) strictest_below: u8,
}

impl Tree {
    pub(super) const ROOT: NodeId = 0;

    pub(super) fn new() -> Self {
        Self { nodes: vec![Node { strictest_below: NOTHING, ..Node::default() }], patterns: Vec::new() }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    pub(super) fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.nodes[id].children.as_ref()?.get(name).copied()
    }

    /// The rules whose patterns begin at a node.
    pub(super) fn patterns(&self, id: NodeId) -> &[usize] {
        self.nodes[id].patterns.map_or(&[], |index| &self.patterns[index])
    }

    pub(super) fn begin_pattern(&mut self, id: NodeId, rule: usize) {
        let index = *self.nodes[id].patterns.get_or_insert(self.patterns.len());
        if index == self.patterns.len() {
            self.patterns.push(Vec::new());
        }
        self.patterns[index].push(rule);
    }

    /// The node of a path, made where there is none.
    pub(super) fn enter(&mut self, path: &Path) -> NodeId {
        names(path.as_os_str().as_bytes()).fold(Self::ROOT, |id, name| match self.child(id, name) {
            Some(child) => child,
            None => self.add(id, name),
        })
    }

    fn add(&mut self, parent: NodeId, name: &[u8]) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(Node { parent, strictest_below: NOTHING, ..Node::default() });
        self.nodes[parent].children.get_or_insert_default().insert(name.into(), id);
        id
    }

    /// Notes on every ancestor of a node that an access of this rank is given below.
    pub(super) fn note_above(&mut self, mut id: NodeId, rank: u8) {
        while id != Self::ROOT {
            id = self.nodes[id].parent;
            if self.nodes[id].strictest_below <= rank {
                break;
            }
            self.nodes[id].strictest_below = rank;
        }
    }

    /// Forgets every rank noted.
    pub(super) fn forget_ranks(&mut self) {
        for node in &mut self.nodes {
            node.strictest_below = NOTHING;
        }
    }
}
