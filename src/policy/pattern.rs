//! Patterns of names: `*`, `?`, `[…]`, `{a,b}` within one name, `**` for any number of names.
//!
//! A pattern is matched name by name, so that one walk along a path answers whether the path matches, whether an
//! ancestor does, and whether something below could. The set of places in the pattern that can be reached is one `u64`:
//! no allocation, no backtracking.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::error::Problem;
use super::expand::{from_base, names, unescape};

/// The most names a pattern may hold after its first special one: places are bits of a `u64`, one more than parts.
const MOST_PARTS: usize = 63;

/// A pattern, absolute. One that is written with a leading `**/` holds everywhere.
#[derive(Clone)]
pub struct Pattern {
    written: String,
    /// The normalised text: what makes two patterns the same.
    key: Vec<u8>,
    /// The directory that every match is strictly below.
    anchor: PathBuf,
    parts: Box<[Part]>,
    /// The `**` that may stand for no name, as bits: all but a last one.
    passable: u64,
}

/// One name of a pattern.
#[derive(Clone)]
enum Part {
    Literal(Box<[u8]>),
    /// `*`
    Any,
    /// `prefix*suffix`, without a regular expression: compiling one costs more than a whole launch should.
    Affix(Box<[u8]>, Box<[u8]>),
    Glob(Box<GlobMatcher>),
    /// `**`: no name or many; at the end at least one.
    Tree,
}

/// What a walk along a path found out about a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trace {
    /// How many names below the anchor the longest matching prefix has; 0 means none.
    pub(super) matched: usize,
    /// Something strictly below the path could match.
    pub(super) reaches_below: bool,
    /// The last name of the path is itself a part of the pattern, not one that `**` passes over.
    pub(super) ends_in_part: bool,
}

impl Pattern {
    /// Reads escaped text (see [`super::expand`]); what is relative starts at `base`, but for a leading `**`.
    pub(super) fn parse(text: &[u8], base: &Path, written: &str) -> Result<Self, Problem> {
        let bad = |message: String| Problem::Pattern { pattern: written.to_owned(), message };
        let base = if text == b"**" || text.starts_with(b"**/") { Path::new("/") } else { base };
        let (start, rest) = from_base(text, base);
        let mut pattern = Self {
            written: written.to_owned(),
            key: Vec::new(),
            anchor: PathBuf::from("/").join(OsStr::from_bytes(start)),
            parts: Box::default(),
            passable: 0,
        };
        let mut parts = Vec::new();
        for name in rest {
            match Part::parse(name).map_err(bad)? {
                Part::Literal(name) if *name == *b".." => return Err(Problem::DotDot),
                Part::Literal(name) if parts.is_empty() => pattern.anchor.push(OsString::from_vec(name.into_vec())),
                Part::Tree if matches!(parts.last(), Some(Part::Tree)) => continue,
                part => parts.push(part),
            }
            pattern.key.push(b'/');
            pattern.key.extend_from_slice(name);
        }
        if parts.len() > MOST_PARTS {
            return Err(bad(format!("more than {MOST_PARTS} names")));
        }
        pattern.key.splice(0..0, start.iter().copied());
        let inner = parts.iter().enumerate().take(parts.len().saturating_sub(1));
        let trees = inner.filter(|(_, part)| matches!(part, Part::Tree));
        pattern.passable = trees.fold(0, |bits, (index, _)| bits | (1 << index));
        pattern.parts = parts.into_boxed_slice();
        Ok(pattern)
    }

    /// Does this very path match? Being below a match is not enough.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        self.below_anchor(path).is_some_and(|names| {
            let depth = names.clone().count();
            depth > 0 && self.trace(names).matched == depth
        })
    }

    /// Could something strictly below this directory match?
    #[must_use]
    pub fn could_match_below(&self, directory: &Path) -> bool {
        match self.below_anchor(directory) {
            Some(names) => self.trace(names).reaches_below,
            None => self.anchor.starts_with(directory),
        }
    }

    /// The deepest directory that every match is strictly below.
    #[must_use]
    pub fn anchor(&self) -> &Path {
        &self.anchor
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Walks along the names below the anchor.
    pub(super) fn trace<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Trace {
        let end = 1 << self.parts.len();
        let mut places = Places { reached: self.pass_trees(1), by_name: self.pass_trees(1) };
        let mut matched = 0;
        for (index, name) in names.enumerate() {
            places = self.step(places.reached, name);
            if places.reached & end != 0 {
                matched = index + 1;
            }
            if places.reached & !end == 0 {
                break;
            }
        }
        Trace { matched, reaches_below: places.reached & !end != 0, ends_in_part: places.by_name & !end != 0 }
    }

    /// The places, other than the end, that the directory reaches; `None` above the anchor. What could match below two
    /// directories is the same if these are.
    pub(super) fn places(&self, directory: &Path) -> Option<u64> {
        let Some(names) = self.below_anchor(directory) else {
            return if self.anchor.starts_with(directory) { None } else { Some(0) };
        };
        let reached = names.fold(self.pass_trees(1), |reached, name| self.step(reached, name).reached);
        Some(reached & !(1 << self.parts.len()))
    }

    fn below_anchor<'a>(&self, path: &'a Path) -> Option<impl Iterator<Item = &'a [u8]> + Clone + use<'a>> {
        path.strip_prefix(&self.anchor).ok().map(|rest| names(rest.as_os_str().as_bytes()))
    }

    fn step(&self, from: u64, name: &[u8]) -> Places {
        let (mut by_name, mut by_tree) = (0, 0);
        for (index, part) in self.parts.iter().enumerate().filter(|(index, _)| from & (1 << index) != 0) {
            match part {
                Part::Tree => by_tree |= (1 << index) | self.end_of_last(index),
                part if part.matches(name) => by_name |= 1 << (index + 1),
                _ => {}
            }
        }
        let by_name = self.pass_trees(by_name);
        Places { reached: by_name | self.pass_trees(by_tree), by_name }
    }

    /// A `**` that is last matches with its first name.
    fn end_of_last(&self, index: usize) -> u64 {
        if index + 1 == self.parts.len() { 1 << (index + 1) } else { 0 }
    }

    /// Adds the places behind each `**` that may stand for no name. (`**` never follows `**`.)
    fn pass_trees(&self, places: u64) -> u64 {
        places | ((places & self.passable) << 1)
    }
}

/// Places in a pattern that a walk can be at, as bits.
struct Places {
    reached: u64,
    /// Those of them that the last name led to as a part of the pattern.
    by_name: u64,
}

impl Part {
    fn parse(name: &[u8]) -> Result<Self, String> {
        if name == b"**" {
            return Ok(Self::Tree);
        }
        let (stars, others) = specials(name);
        match (stars.as_slice(), others) {
            ([], false) => Ok(Self::Literal(unescape(name).into())),
            ([_], false) if name.len() == 1 => Ok(Self::Any),
            ([star], false) => Ok(Self::Affix(unescape(&name[..*star]).into(), unescape(&name[star + 1..]).into())),
            _ => Self::glob(name),
        }
    }

    fn glob(name: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(name).map_err(|_| "not UTF-8".to_owned())?;
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        glob.map(|glob| Self::Glob(Box::new(glob.compile_matcher()))).map_err(|error| {
            let inside = if text.contains(['{', '[']) { "; `/` cannot be inside braces or brackets" } else { "" };
            format!("{}{inside}", error.kind())
        })
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Literal(literal) => **literal == *name,
            Self::Any | Self::Tree => true,
            Self::Affix(before, after) => {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            }
            Self::Glob(glob) => glob.is_match(Path::new(OsStr::from_bytes(name))),
        }
    }
}

/// Where the unescaped stars are, and whether anything else unescaped has a meaning.
fn specials(name: &[u8]) -> (Vec<usize>, bool) {
    let (mut stars, mut others) = (Vec::new(), false);
    let mut index = 0;
    while let Some(byte) = name.get(index) {
        match byte {
            b'\\' => index += 1,
            b'*' => stars.push(index),
            b'?' | b'[' | b'{' => others = true,
            _ => {}
        }
        index += 1;
    }
    (stars, others)
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.written).finish()
    }
}

/// As it was written.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text.as_bytes(), Path::new("/base"), text).expect("a pattern")
    }

    #[test]
    fn matches_whole_paths_only() {
        for (text, yes, no) in [
            ("*.lock", &["/base/a.lock", "/base/.lock"][..], &["/base/x/a.lock", "/a.lock", "/base/a.lock/x"][..]),
            ("**/x/y", &["/x/y", "/a/b/x/y", "/x/x/y"], &["/x", "/y", "/x/a/y", "/x/y/z"]),
            ("./**/y", &["/base/y", "/base/a/y"], &["/y", "/base"]),
            ("/a/**", &["/a/b", "/a/b/c"], &["/a", "/b"]),
            ("**", &["/a", "/a/b"], &["/"]),
            ("/a/**/**/z", &["/a/z", "/a/b/c/z"], &["/a", "/z"]),
            ("/a/?b/{c,dd}[0-9]", &["/a/xb/c1", "/a/yb/dd2"], &["/a/b/c1", "/a/xb/cc1", "/a/xb/c"]),
            (r"/a/\*b*", &["/a/*b", "/a/*bc"], &["/a/xb"]),
            ("/a/b*b", &["/a/bb", "/a/bxb"], &["/a/b"]),
            ("../*", &["/x"], &["/base/x"]),
            ("**/a/**/b", &["/a/b", "/x/a/y/z/b"], &["/a", "/b", "/b/a"]),
        ] {
            let pattern = pattern(text);
            for path in yes.iter().chain(no) {
                assert_eq!(pattern.matches(Path::new(path)), yes.contains(path), "{text} {path}");
            }
        }
    }

    #[test]
    fn odd_names_are_matched() {
        let odd = Path::new(OsStr::from_bytes(b"/base/\xff\n.lock"));
        assert!(pattern("*.lock").matches(odd));
        assert!(pattern("*[.]lock").matches(odd));
        assert!(pattern("**/?\n.lock").matches(odd));
    }

    #[test]
    fn what_could_match_below() {
        for (text, path, expected) in [
            ("**/x/y", "/any/thing", true),
            ("/a/*/c", "/", true),
            ("/a/*/c", "/a", true),
            ("/a/*/c", "/a/b", true),
            ("/a/*/c", "/a/b/c", false),
            ("/a/*/c", "/b", false),
            ("/a/x*/c", "/a/b", false),
            ("/a/*", "/a/b", false),
            ("/a/**", "/a/b", true),
        ] {
            assert_eq!(pattern(text).could_match_below(Path::new(path)), expected, "{text} {path}");
        }
    }

    #[test]
    fn bad_patterns_say_why() {
        for (text, expected) in [
            (
                "a[b",
                "bad pattern `a[b`: unclosed character class; missing ']'; `/` cannot be inside braces or brackets",
            ),
            ("*/..", "`..` after a name is not resolved, the name may be a link: write the path that it leads to"),
            ("*/../x", "`..` after a name is not resolved, the name may be a link: write the path that it leads to"),
        ] {
            let problem = Pattern::parse(text.as_bytes(), Path::new("/"), text).expect_err("a problem");
            assert_eq!(problem.to_string(), expected);
        }
        let long = "*/".repeat(64);
        assert!(Pattern::parse(long.as_bytes(), Path::new("/"), &long).is_err());
        let longest = "?/".repeat(63);
        let longest = Pattern::parse(longest.as_bytes(), Path::new("/"), &longest).expect("a pattern");
        assert!(longest.matches(Path::new(&"/a".repeat(63))));
        assert!(!longest.matches(Path::new(&"/a".repeat(64))));
    }

    #[test]
    fn spelling_does_not_matter() {
        assert_eq!(pattern("./a//*"), pattern("/base/a/*/"));
        assert_ne!(pattern("**/a"), pattern("./**/a"));
        assert_eq!(pattern("./a//*").to_string(), "./a//*");
    }
}
