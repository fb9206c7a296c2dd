//! A permission profile: `[permissions.NAME]`, chosen by `default_permissions`.
//!
//! There as here the most specific rule decides; what no rule names cannot be read.

use serde_json::{Map, Value};

use super::codex::{CLOSED, absolute, close};
use super::draft::Draft;
use super::keys::{Fate, Keys, from, join, object, switch, tell, text};
use super::network::{NO_LIST, WHOLE};
use super::place::{Place, Places, Target};
use super::settle::{Lists, Wish, settle};
use super::{Error, srt_glob};

const PROFILE: &Keys = &[
    ("description", Fate::Holds),
    ("extends", Fate::Read),
    ("filesystem", Fate::Read),
    ("network", Fate::Read),
    ("workspace_roots", Fate::Read),
];

const NO_PROXY: Fate = Fate::Refused("a run has no network that a proxy could filter", None);
const NETWORK: &Keys = &[
    ("enabled", Fate::Read),
    ("domains", Fate::Refused(NO_LIST, Some(WHOLE))),
    ("mode", Fate::Refused("requests are not judged: the network is off", Some(WHOLE))),
    ("mitm", NO_PROXY),
    ("proxy_url", NO_PROXY),
    ("socks_url", NO_PROXY),
    ("enable_socks5", NO_PROXY),
    ("enable_socks5_udp", NO_PROXY),
    ("allow_upstream_proxy", NO_PROXY),
    ("dangerously_allow_non_loopback_proxy", NO_PROXY),
    ("allow_local_binding", Fate::Note("a run has a loopback of its own, which it can always use")),
    ("dangerously_allow_all_unix_sockets", Fate::Note("sockets that a run can see can be connected to")),
    ("unix_sockets", Fate::Refused("sockets that a run can see can be connected to, others not", None)),
];

/// What `:minimal` means on Linux; NixOS's programs are always there.
const MINIMAL: [&str; 7] = ["/bin", "/sbin", "/usr", "/etc", "/lib", "/lib64", "/nix/store"];

/// An entry of `filesystem`: what it names, what it says, and where it was written.
struct Entry {
    path: String,
    below: Option<String>,
    access: String,
    from: String,
}

pub(super) fn read(settings: &Map<String, Value>, name: &str, places: &Places, draft: &mut Draft) -> Result<(), Error> {
    let chosen = format!("default_permissions: {name:?}");
    draft.network = Some(("none", chosen.clone()));
    let mut reading = Reading {
        lists: Lists { specific: true, ..Lists::default() },
        roots: vec![Place::project()],
        draft,
        all: false,
        git: false,
    };
    let Chain { entries, network, built_in } = reading.chain(settings, name)?;
    reading.built_in(built_in.as_deref(), &entries)?;
    for entry in &entries {
        reading.entry(entry)?;
    }
    reading.finish(&chosen, places, &entries);
    self::network(&network, draft)
}

/// A profile with those that it extends; what is said first holds.
#[derive(Default)]
struct Chain {
    entries: Vec<Entry>,
    network: Map<String, Value>,
    /// The built-in one at its end.
    built_in: Option<String>,
}

fn entries_of(filesystem: &Map<String, Value>, profile: &str) -> Result<Vec<Entry>, Error> {
    let key = join(profile, "filesystem");
    let mut entries = Vec::new();
    for (path, value) in filesystem.iter().filter(|(path, _)| *path != "glob_scan_max_depth") {
        let said = from(&format!("{key}.{path:?}"), value);
        match value {
            Value::String(access) => {
                entries.push(Entry { path: path.clone(), below: None, access: access.clone(), from: said });
            }
            Value::Object(scoped) => {
                for (below, access) in scoped {
                    let from = from(&format!("{key}.{path:?}.{below:?}"), access);
                    let access = access.as_str().ok_or_else(|| wrong(&from))?.to_owned();
                    entries.push(Entry { path: path.clone(), below: Some(below.clone()), access, from });
                }
            }
            _ => return Err(wrong(&said)),
        }
    }
    Ok(entries)
}

fn wrong(key: &str) -> Error {
    Error::wrong(key, "\"read\", \"write\" or \"deny\", or a table of these")
}

struct Reading<'a> {
    lists: Lists,
    /// The directories that `:workspace_roots` stands for.
    roots: Vec<Place>,
    draft: &'a mut Draft,
    /// Can everything be read that nothing is said of?
    all: bool,
    /// Is the project's `.git` to be written?
    git: bool,
}

impl Reading<'_> {
    fn chain(&mut self, settings: &Map<String, Value>, name: &str) -> Result<Chain, Error> {
        let profiles = object(settings, "", "permissions")?;
        let (mut chain, mut seen, mut next) = (Chain::default(), Vec::new(), Some(name));
        while let Some(name) = next {
            let key = join("permissions", name);
            if name.starts_with(':') {
                chain.built_in = Some(name.to_owned());
                break;
            }
            if seen.contains(&name) || !profiles.contains_key(name) {
                return Err(Error::wrong(key, "a profile that is there, and does not extend itself"));
            }
            let profile = object(profiles, "permissions", name)?;
            self.link(profile, &key, &mut chain)?;
            next = text(profile, &key, "extends")?;
            seen.push(name);
        }
        Ok(chain)
    }

    fn link(&mut self, profile: &Map<String, Value>, key: &str, chain: &mut Chain) -> Result<(), Error> {
        tell(profile, key, PROFILE, self.draft);
        self.add_roots(object(profile, key, "workspace_roots")?, key);
        for entry in entries_of(object(profile, key, "filesystem")?, key)? {
            if !chain.entries.iter().any(|held| (&held.path, &held.below) == (&entry.path, &entry.below)) {
                chain.entries.push(entry);
            }
        }
        for (key, value) in object(profile, key, "network")? {
            chain.network.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Ok(())
    }

    fn add_roots(&mut self, roots: &Map<String, Value>, profile: &str) {
        for (path, value) in roots.iter().filter(|(_, value)| **value != Value::Bool(false)) {
            let from = from(&format!("{profile}.workspace_roots.{path:?}"), value);
            match absolute(path) {
                Ok(root) => self.roots.push(root),
                Err(why) => self.draft.refuse(&from, why, Some("write the path from the root")),
            }
        }
    }

    /// What a profile builds upon.
    fn built_in(&mut self, name: Option<&str>, entries: &[Entry]) -> Result<(), Error> {
        let root = entries.iter().find(|entry| entry.path == ":root").map(|entry| entry.access.as_str());
        self.all = matches!(root, Some("read" | "write"));
        let Some(name) = name else { return Ok(()) };
        self.all |= root.is_none();
        let from = format!("extends {name:?}");
        match name {
            ":read-only" => {}
            ":workspace" => {
                for root in self.roots.clone().iter().filter(|_| !says_of_roots(entries)) {
                    self.add("write", root.clone(), &from);
                }
            }
            ":danger-full-access" => {
                self.draft.refuse(&from, "a run always has a policy", Some("run the command without stockade"));
            }
            _ => return Err(Error::wrong("a profile", "`:read-only`, `:workspace` or one that is there")),
        }
        Ok(())
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), Error> {
        let Entry { path, below, access, from } = entry;
        if !matches!(access.as_str(), "read" | "write" | "deny" | "none") {
            return Err(wrong(from));
        }
        match path.as_str() {
            ":root" if access == "write" => self.add("write", Place::root("/"), from),
            // The first is said by `all`; the others are the session's own.
            ":root" | ":tmpdir" | ":slash_tmp" => {}
            ":minimal" if matches!(access.as_str(), "read" | "write") => {
                for path in MINIMAL {
                    self.add("read", Place::root(path), from);
                }
            }
            ":minimal" => self.draft.refuse(from, "programs could not start", None),
            ":workspace_roots" | ":project_roots" => {
                for root in self.roots.clone() {
                    self.below(&root, below.as_deref().unwrap_or("."), access, from);
                }
            }
            path if path.starts_with(':') => {
                self.draft.refuse(from, "nothing is known of this place", Some("write a path"));
            }
            path => match absolute(path) {
                Ok(_) => self.top(path, below.as_deref(), access, from),
                Err(why) => self.draft.refuse(from, why, Some("write the path from the root, without it")),
            },
        }
        Ok(())
    }

    /// A path that stands for itself, or for what lies in it.
    fn top(&mut self, path: &str, below: Option<&str>, access: &str, from: &str) {
        let rest = path.strip_prefix('~');
        let (base, rest) = (absolute(if rest.is_some() { "~" } else { "/" }), rest.unwrap_or(path));
        let joined = below.map_or_else(|| rest.to_owned(), |below| format!("{rest}/{below}"));
        if let Ok(base) = base {
            self.below(&base, &joined, access, from);
        }
    }

    fn below(&mut self, root: &Place, path: &str, access: &str, from: &str) {
        match srt_glob::targets(root, path, false).map(|mut targets| targets.remove(0)) {
            Ok(Target::Place(place)) => self.add(access, place, from),
            Ok(target) if matches!(access, "deny" | "none") => {
                self.lists.hide.push(Wish { target, from: from.to_owned() });
            }
            Ok(_) => self.draft.refuse(from, "a pattern only denies", None),
            Err(why) => self.draft.refuse(from, why, Some("write the path in another way")),
        }
    }

    fn add(&mut self, access: &str, place: Place, from: &str) {
        let git = Place::project().join(".git");
        if access == "write" && place == git {
            self.git = true;
            let text = "of .git, what everyday commands of git write can be written";
            return self.draft.note(from, text);
        }
        let wish = Wish { target: Target::Place(place), from: from.to_owned() };
        match access {
            "write" => self.lists.write.push(wish),
            "read" => self.lists.show.push(wish),
            _ => self.lists.hide.push(wish),
        }
    }

    fn finish(mut self, chosen: &str, places: &Places, entries: &[Entry]) {
        if !self.all {
            let from = format!("{chosen}: what is not named cannot be read");
            self.lists.hide.push(Wish { target: Target::Place(Place::root("/")), from });
        }
        self.keep_from_writing(places);
        let writes: Vec<(Place, String)> = self.lists.write.iter().filter_map(named).collect();
        for (root, from) in &writes {
            let before = self.lists.read.len();
            close(root, from, &mut self.lists);
            // What the profile itself names of these.
            let said = |wish: &Wish| entries.iter().any(|entry| says(entry, wish));
            let added = self.lists.read.split_off(before);
            self.lists.read.extend(added.into_iter().filter(|wish| !said(wish)));
        }
        settle(&self.lists, places, self.draft);
        let project = writes.iter().any(|(root, _)| *root == Place::project());
        if project && !self.git && self.draft.git.is_none() {
            self.draft.git = Some(("closed", format!("{chosen}: .git cannot be written")));
        }
    }

    /// What can be read inside of what can be written.
    fn keep_from_writing(&mut self, places: &Places) {
        let writes: Vec<(Place, String)> = self.lists.write.iter().filter_map(named).collect();
        for wish in &self.lists.show {
            let Target::Place(place) = &wish.target else { continue };
            let inside = |(root, _): &(Place, String)| {
                places.covers(root, place) && !places.same(root, place) || Places::unknown(root, place)
            };
            if writes.iter().any(inside) && !places.same(place, &Place::project()) {
                self.lists.read.push(Wish { target: wish.target.clone(), from: wish.from.clone() });
            }
        }
    }
}

/// Does an entry name one of the closed names and allow it to be written?
fn says(entry: &Entry, wish: &Wish) -> bool {
    let Target::Place(place) = &wish.target else { return false };
    let last = place.names.last().map(String::as_str);
    entry.access == "write" && entry.below.as_deref() == last && CLOSED.iter().any(|name| Some(*name) == last)
}

fn says_of_roots(entries: &[Entry]) -> bool {
    let of_roots = |entry: &Entry| matches!(entry.path.as_str(), ":workspace_roots" | ":project_roots");
    entries.iter().any(|entry| of_roots(entry) && matches!(entry.below.as_deref(), None | Some(".")))
}

fn named(wish: &Wish) -> Option<(Place, String)> {
    match &wish.target {
        Target::Place(place) => Some((place.clone(), wish.from.clone())),
        Target::Pattern(_) => None,
    }
}

fn network(table: &Map<String, Value>, draft: &mut Draft) -> Result<(), Error> {
    tell(table, "network", NETWORK, draft);
    let filtered =
        ["domains", "mode", "mitm"].iter().any(|key| table.get(*key).is_some_and(|value| !super::keys::is_off(value)));
    if switch(table, "network", "enabled")? == Some(true) && !filtered {
        draft.network = Some(("host", "network.enabled: true".to_owned()));
    }
    Ok(())
}
