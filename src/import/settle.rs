//! Lists in which a denial wins, as rules of which the most specific wins.
//!
//! What is allowed at or below something that is denied gets no rule. Where nobody can tell before a run whether one path
//! lies in another (one starts from the project, the other does not), a pattern says the denial again for everything
//! below: it names more of a path than the rule that allows.

use super::draft::{Access, Draft};
use super::place::{Base, Pattern, Place, Places, Target};
use crate::policy;

/// An element of a list.
pub(super) struct Wish {
    pub(super) target: Target,
    /// Its key and value.
    pub(super) from: String,
}

/// What settings say about files.
#[derive(Default)]
pub(super) struct Lists {
    /// Cannot be read, but for what `show` and `write` name in it.
    pub(super) hide: Vec<Wish>,
    /// Cannot be read, whatever else is said.
    pub(super) secret: Vec<Wish>,
    /// Can be read inside of `hide`.
    pub(super) show: Vec<Wish>,
    pub(super) write: Vec<Wish>,
    /// Cannot be written, whatever else is said.
    pub(super) read: Vec<Wish>,
    /// Why the project can be written without being named.
    pub(super) project: Option<&'static str>,
    /// As in a policy, what is allowed in a denied directory stays allowed.
    pub(super) specific: bool,
}

/// Directories that belong to a session, whatever the host has there.
const PRIVATE: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/var/run"];
/// Those of them where host services listen.
const SOCKETS: [&str; 2] = ["/run", "/var/run"];
const NO_PATTERN: &str =
    "a rule for what is seen takes no patterns: what matches can be read, and is only kept from being written";
const NAME_IT: &str = "name the files, or a directory that holds them";

/// Adds the rules.
pub(super) fn settle(lists: &Lists, places: &Places, draft: &mut Draft) {
    let mut settling = Settling { lists, places, draft };
    for wish in lists.secret.iter().chain(&lists.hide) {
        settling.hide(wish);
    }
    for wish in &lists.show {
        settling.show(wish);
    }
    for wish in &lists.read {
        settling.read(wish);
    }
    for wish in &lists.write {
        settling.write(wish);
    }
    settling.project();
}

struct Settling<'a> {
    lists: &'a Lists,
    places: &'a Places,
    draft: &'a mut Draft,
}

impl Settling<'_> {
    fn hide(&mut self, wish: &Wish) {
        let place = match &wish.target {
            Target::Pattern(pattern) => return self.hide_pattern(pattern, &wish.from),
            Target::Place(place) => place,
        };
        let root = Place::root("/");
        if self.places.same(place, &root) && self.lists.show.is_empty() {
            return self.draft.refuse(&wish.from, "no program could be read, so none could run", None);
        }
        let is_secret = self.lists.secret.iter().any(|secret| secret.target == wish.target);
        if *place == Place::project() {
            return self.draft.refuse(&wish.from, "nothing can run in a project that cannot be seen", None);
        }
        if !is_secret && places_of(&self.lists.show).any(|show| self.places.same(show, place)) {
            return self.draft.note(&wish.from, "allowed to be read too, which wins there");
        }
        if self.is_private(place) {
            self.draft.note(&wish.from, "a session has a directory of its own there: the host's cannot be seen");
        } else {
            self.draft.rule(Access::Hide, place.text(), &wish.from);
            self.hide_what_is_shown_by_default(place, &wish.from);
        }
        if self.places.holds_projects(place) && !self.shows_project() {
            let text = "a project in it can be seen all the same";
            self.draft.refuse(&wish.from, text, Some("allow \".\" to be read, if that is meant"));
        } else if self.places.holds_projects(place) {
            self.draft.note(&wish.from, "a project in it can be seen");
        }
    }

    /// A built-in rule shows a file in a directory that is hidden by another built-in rule.
    fn hide_what_is_shown_by_default(&mut self, hidden: &Place, from: &str) {
        for name in policy::SHOWN_AT_HOME {
            let shown = at_home(name);
            let allowed = places_of(&self.lists.show).any(|show| self.places.covers(show, &shown));
            if !allowed && self.places.covers(hidden, &shown) && !self.places.same(hidden, &shown) {
                self.draft.rule(Access::Hide, shown.text(), &format!("{from} (what is shown there by default)"));
            }
        }
    }

    fn hide_pattern(&mut self, pattern: &Pattern, from: &str) {
        if self.is_hidden(&pattern.anchor) || is_secret(&pattern.anchor, self.places) {
            return self.draft.note(from, "lies in a directory that is hidden");
        }
        self.draft.refuse(from, NO_PATTERN, Some(NAME_IT));
        self.draft.rule(Access::Read, pattern.text(), &format!("{from} (only kept from being written)"));
        if let Some(top) = first_match(pattern) {
            self.draft.rule(Access::Hide, top.text(), &format!("{from} (where it is sure to be looked for)"));
        }
    }

    fn show(&mut self, wish: &Wish) {
        let Target::Place(place) = &wish.target else {
            let text = "a pattern shows nothing in a hidden directory";
            return self.draft.refuse(&wish.from, text, Some("name the directories"));
        };
        if let Some(secret) = self.lists.secret.iter().find(|secret| self.denies(secret, place)) {
            return self.draft.note(&wish.from, format!("denied by {}", secret.from));
        }
        let Some(hidden) = self.innermost_hidden(place) else { return };
        let opened = places_of(&self.lists.write)
            .any(|write| self.places.covers(&hidden, write) && self.places.covers(write, place));
        if opened || self.places.same(&hidden, place) {
            return;
        }
        if SOCKETS.iter().any(|dir| self.places.covers(&Place::root(dir), place)) {
            let text = "sockets of host services are there, and to connect is not to read";
            return self.draft.refuse(&wish.from, text, Some("add a `read` rule by hand"));
        }
        self.draft.rule(Access::Read, place.text(), &wish.from);
    }

    fn read(&mut self, wish: &Wish) {
        let place = match &wish.target {
            Target::Pattern(pattern) if self.is_hidden(&pattern.anchor) || is_secret(&pattern.anchor, self.places) => {
                return self.draft.note(&wish.from, "lies in a directory that is hidden");
            }
            Target::Pattern(pattern) => return self.draft.rule(Access::Read, pattern.text(), &wish.from),
            Target::Place(place) => place,
        };
        // A `read` rule would show what is hidden.
        if self.is_hidden(place) {
            return self.read_what_is_given_back(place, &wish.from);
        }
        if is_secret(place, self.places) && !places_of(&self.lists.show).any(|show| self.places.covers(show, place)) {
            return self.draft.note(&wish.from, "hidden by a built-in rule: it can be neither read nor written");
        }
        if self.is_private(place) {
            return self.read_private(&wish.from);
        }
        // In a directory of the session's own, too, a plain rule would show what the host has.
        let in_private = PRIVATE.iter().any(|private| self.places.covers(&Place::root(private), place));
        if in_private || self.hidden_places().any(|hidden| self.places.may_hold(hidden, place)) {
            return self.read_if_visible(place, &wish.from);
        }
        // For the project there is one rule in any case.
        if *place != Place::project() {
            self.draft.rule(Access::Read, place.text(), &wish.from);
        }
        if self.opens() {
            let below = Pattern { anchor: place.clone(), names: vec!["**".to_owned()] };
            self.draft.rule(Access::Read, below.text(), &format!("{} (whatever is allowed in it)", wish.from));
        }
    }

    /// The host's directory is out of sight, but for what rules show there: a project.
    fn read_private(&mut self, from: &str) {
        if self.opens() {
            let text = "a project in it could be written all the same, and the session's own directory can be";
            return self.draft.refuse(from, text, Some("name what is in it"));
        }
        let text = "a session has a directory of its own there: the host's cannot be written";
        self.draft.note(from, text);
    }

    /// In a hidden directory there may be a project, which can be seen. A pattern that begins above the directory has a
    /// say there, and none about what stays hidden.
    fn read_what_is_given_back(&mut self, hidden: &Place, from: &str) {
        if !self.opens() {
            return;
        }
        let mut pattern = Pattern::from_base(&self.places.rooted(hidden));
        pattern.names.push("**".to_owned());
        let whole = Place::root("/");
        if self.hidden_places().any(|hidden| self.places.same(hidden, &whole)) {
            self.draft.refuse(from, "a project in it could be written all the same", Some("do not allow \".\""));
        } else {
            self.draft.rule(Access::Read, pattern.text(), &format!("{from} (whatever is allowed in it)"));
        }
    }

    /// Nobody can tell yet whether something hidden holds it: a plain rule would show it, a pattern that begins above what
    /// is hidden does not.
    fn read_if_visible(&mut self, place: &Place, from: &str) {
        let mut pattern = Pattern::from_base(place);
        self.draft.rule(Access::Read, pattern.text(), from);
        pattern.names.push("**".to_owned());
        self.draft.rule(Access::Read, pattern.text(), &format!("{from} (whatever is allowed in it)"));
    }

    fn hidden_places(&self) -> impl Iterator<Item = &Place> {
        places_of(&self.lists.hide).chain(places_of(&self.lists.secret))
    }

    /// Can anything be written at all, and does a denial win over that?
    fn opens(&self) -> bool {
        !self.lists.specific && (!self.lists.write.is_empty() || self.lists.project.is_some())
    }

    fn write(&mut self, wish: &Wish) {
        let Target::Place(place) = &wish.target else {
            let text = "patterns allow no writing";
            return self.draft.refuse(&wish.from, text, Some("name the directories; or add a `write` rule by hand"));
        };
        if let Some(denial) = self.denial(place) {
            return self.draft.note(&wish.from, format!("denied by {denial}"));
        }
        if *place == Place::project() {
            return;
        }
        let at = |dir: &str| self.places.covers(&Place::root(dir), place);
        let is = |dir: &str| self.places.same(&Place::root(dir), place);
        if SOCKETS.iter().any(|dir| at(dir)) {
            let text = "sockets of host services are there";
            self.draft.refuse(&wish.from, text, Some("add a `write` rule for the one path by hand"));
        } else if is("/tmp") || is("/var/tmp") {
            self.draft.note(&wish.from, "the session's own directory there can be written, not the host's");
        } else if at("/dev") {
            self.draft.note(&wish.from, "a run has a /dev of its own");
        } else if at("/proc") || at("/sys") {
            self.draft.refuse(&wish.from, "settings of the kernel cannot be written", None);
        } else {
            self.draft.rule(Access::Write, place.text(), &wish.from);
        }
    }

    /// The project can be written by default: if the settings do not say so, that is taken back.
    fn project(&mut self) {
        let project = Place::project();
        let whole = Place::root("/");
        let named = places_of(&self.lists.write).any(|write| *write == project || *write == whole);
        let denied = self.denial(&project);
        if (named || self.lists.project.is_some()) && denied.is_none() {
            return;
        }
        if denied.is_none() && places_of(&self.lists.write).any(|write| write.base != Base::Project) {
            let text = "cannot be written, also where it lies in a directory that can: allow \".\", if that is meant";
            self.draft.note("the project", text);
        }
        let from = denied.map_or_else(
            || "nothing allows the project as a whole to be written".to_owned(),
            |from| format!("the project cannot be written: {from}"),
        );
        self.draft.rule(Access::Read, project.text(), &from);
        self.draft.git = Some(("closed", from));
    }

    /// What denies that a place is written.
    fn denial(&self, place: &Place) -> Option<String> {
        let always = self.lists.read.iter().chain(&self.lists.secret).find(|wish| self.denies(wish, place));
        let same = |wish: &&Wish| matches!(&wish.target, Target::Place(hidden) if self.places.same(hidden, place));
        always.or_else(|| self.lists.hide.iter().find(same)).map(|wish| wish.from.clone())
    }

    fn denies(&self, wish: &Wish, place: &Place) -> bool {
        match &wish.target {
            Target::Place(denied) if self.lists.specific => self.places.same(denied, place),
            Target::Place(denied) => self.places.covers(denied, place),
            Target::Pattern(pattern) => self.places.matches(pattern, place),
        }
    }

    /// Is it hidden, and nothing in between shown again?
    fn is_hidden(&self, place: &Place) -> bool {
        if self.lists.secret.iter().any(|wish| matches!(&wish.target, Target::Place(_)) && self.denies(wish, place)) {
            return true;
        }
        let Some(hidden) = self.innermost_hidden(place) else { return false };
        let opened = |inner: &Place| self.places.covers(&hidden, inner) && self.places.covers(inner, place);
        !places_of(&self.lists.write).chain(places_of(&self.lists.show)).any(opened)
    }

    fn innermost_hidden(&self, place: &Place) -> Option<Place> {
        let over = places_of(&self.lists.hide).filter(|hidden| self.places.covers(hidden, place));
        over.max_by_key(|hidden| self.places.depth(hidden)).cloned()
    }

    /// Does the session have a directory of its own there?
    fn is_private(&self, place: &Place) -> bool {
        PRIVATE.iter().any(|private| self.places.same(&Place::root(private), place))
    }

    fn shows_project(&self) -> bool {
        let named = places_of(&self.lists.write).chain(places_of(&self.lists.show)).any(|it| *it == Place::project());
        named || self.lists.project.is_some()
    }
}

fn places_of(wishes: &[Wish]) -> impl Iterator<Item = &Place> {
    wishes.iter().filter_map(|wish| match &wish.target {
        Target::Place(place) => Some(place),
        Target::Pattern(_) => None,
    })
}

fn at_home(name: &str) -> Place {
    Place { base: Base::Home, names: Vec::new() }.join(name)
}

/// Does a built-in rule hide it?
fn is_secret(place: &Place, places: &Places) -> bool {
    policy::HIDDEN_AT_HOME.iter().any(|name| places.covers(&at_home(name), place))
}

/// Of a pattern `**/name`: the one in the directory that it starts from.
fn first_match(pattern: &Pattern) -> Option<Place> {
    let (first, rest) = pattern.names.split_first()?;
    let literal = rest.iter().all(|name| !name.contains(['*', '?', '[', '{', '\\']));
    (first == "**" && literal && !rest.is_empty()).then(|| pattern.anchor.join(&rest.join("/")))
}
