//! `~/.srt-settings.json`.

use serde_json::{Map, Value};

use super::Error;
use super::draft::Draft;
use super::keys::{Fate, Keys, from, join, object, tell, texts};
use super::network;
use super::place::{Place, Places};
use super::sandbox;
use super::settle::{Lists, settle};

const MAC: Fate = Fate::Note("for macOS only");
const PROGRAM: Fate = Fate::Note("a program that is not needed");

pub(super) const KEYS: &Keys = &[
    ("network", Fate::Read),
    ("filesystem", Fate::Read),
    ("credentials", Fate::Read),
    ("git", Fate::Read),
    ("ignoreViolations", Fate::Note("all denials are reported")),
    ("enableWeakerNestedSandbox", Fate::Note("not needed, and nothing is weakened")),
    (
        "allowNestedUserNamespaces",
        Fate::Refused("a policy does not open user namespaces", Some("`--allow-userns` for a run that needs them")),
    ),
    ("enableWeakerNetworkIsolation", MAC),
    ("allowAppleEvents", MAC),
    ("allowPty", MAC),
    ("ripgrep", PROGRAM),
    ("seccomp", PROGRAM),
    ("bwrapPath", PROGRAM),
    ("socatPath", PROGRAM),
    ("javaAgentJarPath", PROGRAM),
    // They are denied at any depth.
    ("mandatoryDenySearchDepth", Fate::Holds),
    ("windows", Fate::Note("for Windows only")),
];

const GIT: &Keys = &[("safeDirectories", Fate::Read)];

pub(super) fn read(settings: &Value, places: &Places) -> Result<Draft, Error> {
    let mut draft = Draft::default();
    let none = Map::new();
    let settings = settings.as_object().unwrap_or(&none);
    tell(settings, "", KEYS, &mut draft);
    let (mut lists, relative) = (Lists::default(), Some(Place::project()));
    let filesystem = object(settings, "", "filesystem")?;
    sandbox::filesystem(filesystem, "filesystem", &relative, &mut lists, &mut draft)?;
    sandbox::never(filesystem, "filesystem", &mut lists, &mut draft)?;
    sandbox::credentials(object(settings, "", "credentials")?, "credentials", &relative, &mut lists, &mut draft)?;
    settle(&lists, places, &mut draft);
    let net = object(settings, "", "network")?;
    network::read(net, "network", &mut draft)?;
    if !net.contains_key("allowedDomains") {
        let text = "srt refuses such a file, and its library leaves the network open; here it is off";
        draft.refuse("no network.allowedDomains", text, Some("write [] for no network"));
    }
    git(settings, "", &mut draft)?;
    draft.note(
        "relative paths",
        "start at $PROJECT, the git work tree around the working directory; srt's start at the latter",
    );
    Ok(draft)
}

/// git's own configuration outside says the same, and is read inside.
pub(super) fn git(settings: &Map<String, Value>, prefix: &str, draft: &mut Draft) -> Result<(), Error> {
    let git = object(settings, prefix, "git")?;
    let key = join(prefix, "git");
    tell(git, &key, GIT, draft);
    let directories = texts(git, &key, "safeDirectories")?;
    if !directories.is_empty() {
        let from = from(&join(&key, "safeDirectories"), &git["safeDirectories"]);
        let cure = "`git config --global --add safe.directory DIR`, outside";
        draft.refuse(&from, "a policy says nothing to git about owners", Some(cure));
    }
    Ok(())
}
