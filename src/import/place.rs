//! Paths as settings spell them, and which of them lies in which.

use std::path::Path;

use globset::GlobBuilder;

use super::text::plain;

/// What a path starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Root,
    /// The home directory.
    Home,
    /// The project of a run: not known yet.
    Project,
}

/// A path without `.` and `..`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) base: Base,
    pub(super) names: Vec<String>,
}

/// Every path below a place that its names match, and what lies below these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) anchor: Place,
    /// Names in a policy's own syntax; `**` for any directories.
    pub(super) names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Place(Place),
    Pattern(Pattern),
}

impl Place {
    /// Reads the names of a path; what is wrong with it, if anything.
    pub(super) fn new(base: Base, path: &str) -> Result<Self, &'static str> {
        let names = names(path)?.into_iter().map(str::to_owned).collect();
        Ok(Self { base, names })
    }

    pub(super) fn project() -> Self {
        Self { base: Base::Project, names: Vec::new() }
    }

    pub(super) fn root(path: &str) -> Self {
        Self { base: Base::Root, names: path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect() }
    }

    pub(super) fn join(&self, path: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned);
        Self { base: self.base, names: self.names.iter().cloned().chain(names).collect() }
    }

    /// In the language of a policy.
    pub(super) fn text(&self) -> String {
        let names = self.names.iter().flat_map(|name| ["/".to_owned(), plain(name)]).collect::<String>();
        match self.base {
            Base::Root if names.is_empty() => "/".to_owned(),
            Base::Root => names,
            Base::Home => format!("~{names}"),
            Base::Project => format!("$PROJECT{names}"),
        }
    }
}

impl Pattern {
    /// The one path, as a pattern that begins where the path's base is.
    pub(super) fn from_base(place: &Place) -> Self {
        let anchor = Place { base: place.base, names: Vec::new() };
        let names = place.names.iter().enumerate();
        let names = names.map(|(index, name)| if index == 0 { braced(name) } else { plain(name) }).collect();
        Self { anchor, names }
    }

    pub(super) fn text(&self) -> String {
        let anchor = self.anchor.text();
        format!("{}/{}", anchor.strip_suffix('/').unwrap_or(&anchor), self.names.join("/"))
    }
}

/// The names of a path, or why it cannot be taken.
pub(super) fn names(path: &str) -> Result<Vec<&str>, &'static str> {
    if path.contains('\0') {
        return Err("it holds a NUL character");
    }
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.contains(&"..") { Err("where `..` leads depends on links") } else { Ok(names) }
}

/// A name that a policy takes for a pattern, and that matches only itself.
fn braced(name: &str) -> String {
    format!("{{{}}}", plain(name).replace(',', "\\,"))
}

/// What is known about places when settings are read.
pub(super) struct Places {
    home: Vec<String>,
    /// The home directory without links, by which settings may call it too.
    real_home: Vec<String>,
}

impl Places {
    pub(super) fn new(home: &str, real_home: &str) -> Self {
        Self { home: Place::root(home).names, real_home: Place::root(real_home).names }
    }

    /// From the root; `None` for what lies in the project.
    fn absolute(&self, place: &Place) -> Option<Vec<String>> {
        match place.base {
            Base::Project => None,
            Base::Root => Some(self.by_one_name(&place.names)),
            Base::Home => Some(self.real_home.iter().chain(&place.names).cloned().collect()),
        }
    }

    fn by_one_name(&self, names: &[String]) -> Vec<String> {
        match names.strip_prefix(self.home.as_slice()) {
            Some(below) => self.real_home.iter().chain(below).cloned().collect(),
            None => names.to_vec(),
        }
    }

    /// The names of `inner` below `outer`; `None` where it does not lie at or below it, or nobody can tell yet.
    fn below(&self, outer: &Place, inner: &Place) -> Option<Vec<String>> {
        let (outer, inner) = match (self.absolute(outer), self.absolute(inner)) {
            (None, None) => (outer.names.clone(), inner.names.clone()),
            (outer, inner) => (outer?, inner?),
        };
        inner.starts_with(&outer).then(|| inner[outer.len()..].to_vec())
    }

    /// How many names lead to it, as far as that is known.
    pub(super) fn depth(&self, place: &Place) -> usize {
        self.absolute(place).map_or(place.names.len(), |names| names.len())
    }

    /// Is `inner` at or below `outer`, wherever the project is?
    pub(super) fn covers(&self, outer: &Place, inner: &Place) -> bool {
        self.below(outer, inner).is_some()
    }

    pub(super) fn same(&self, one: &Place, other: &Place) -> bool {
        self.below(one, other).is_some_and(|rest| rest.is_empty())
    }

    /// Of two places of which one starts from the project: is there a project in which `inner` lies below `outer`, and
    /// `outer` in the project?
    pub(super) fn may_hold(&self, outer: &Place, inner: &Place) -> bool {
        let tails = |long: &[String], short: &[String]| (1..short.len()).any(|count| long.ends_with(&short[..count]));
        match (self.absolute(outer), self.absolute(inner)) {
            (Some(outer), None) => tails(&outer, &inner.names),
            (None, Some(inner)) => (1..inner.len()).any(|count| inner[..count].ends_with(&outer.names)),
            _ => false,
        }
    }

    /// Can one of two places lie in the project or the project in it, and nobody can tell yet?
    pub(super) fn unknown(one: &Place, other: &Place) -> bool {
        (one.base == Base::Project) != (other.base == Base::Project)
    }

    /// Does the pattern match the place or a directory above it?
    pub(super) fn matches(&self, pattern: &Pattern, place: &Place) -> bool {
        let Some(below) = self.below(&pattern.anchor, place) else { return false };
        let glob = GlobBuilder::new(&pattern.names.join("/")).literal_separator(true).backslash_escape(true).build();
        // What cannot be read as a pattern is taken to match: it denies.
        let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else { return true };
        (1..=below.len()).any(|count| glob.is_match(Path::new(&below[..count].join("/"))))
    }

    /// The same place, from the root if that is known.
    pub(super) fn rooted(&self, place: &Place) -> Place {
        let home = if place.base == Base::Home { self.home.as_slice() } else { &[] };
        let base = if place.base == Base::Project { Base::Project } else { Base::Root };
        Place { base, names: home.iter().chain(&place.names).cloned().collect() }
    }

    /// A directory in which people keep projects: the home directory or one above it.
    pub(super) fn holds_projects(&self, place: &Place) -> bool {
        self.covers(place, &Place { base: Base::Home, names: Vec::new() })
    }
}
