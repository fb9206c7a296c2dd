//! The names of all rules as a tree of path components: one hash look-up a component, whatever the number of rules.

use std::collections::HashMap;
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
}

/// What is known about one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    parent: NodeId,
    /// Compared byte by byte. A tree on a file system that folds case would need folded keys here, and nowhere else.
    children: HashMap<Box<[u8]>, NodeId>,
    /// The name (its index in the rules' list of names) that stands here.
    pub(super) name: Option<usize>,
    /// The rules (by index) whose patterns begin here.
    pub(super) patterns: Vec<usize>,
    /// The rank of the strictest access that any rule gives strictly below.
    pub(super) strictest_below: u8,
}

impl Tree {
    pub(super) const ROOT: NodeId = 0;

    pub(super) fn new() -> Self {
        Self { nodes: vec![Node { strictest_below: NOTHING, ..Node::default() }] }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    pub(super) fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.nodes[id].children.get(name).copied()
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
        self.nodes[parent].children.insert(name.into(), id);
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
