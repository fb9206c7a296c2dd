//! Claude Code's `settings.json`.

use serde_json::{Map, Value};

use super::claude_rule::{List, Rules};
use super::draft::Draft;
use super::keys::{Fate, Keys, from, is_variable, join, object, switch, tell, text, texts};
use super::place::{Base, Place, Places, Target};
use super::sandbox::{self, Relative};
use super::settle::{Lists, Wish, settle};
use super::{Error, Owner, network, srt};

const OTHERS: Fate = Fate::Refused("other settings are not known here", Some("import them too"));

const KEYS: &Keys = &[
    ("permissions", Fate::Read),
    ("sandbox", Fate::Read),
    ("env", Fate::Read),
    (
        "hooks",
        Fate::Refused(
            "what a hook forbids is not forbidden here",
            Some("keep the hooks in Claude Code, or rule the paths"),
        ),
    ),
    ("allowManagedPermissionRulesOnly", OTHERS),
    ("allowManagedHooksOnly", OTHERS),
];

/// Keys that are about Claude Code itself, not about what its commands may do.
const ITS_OWN: &[&str] = &[
    "$schema",
    "agent",
    "allowedHttpHookUrls",
    "allowedMcpServers",
    "alwaysThinkingEnabled",
    "apiKeyHelper",
    "attribution",
    "autoMemoryDirectory",
    "autoMemoryEnabled",
    "autoUpdatesChannel",
    "availableModels",
    "awsAuthRefresh",
    "awsCredentialExport",
    "cleanupPeriodDays",
    "companyAnnouncements",
    "deniedMcpServers",
    "disableAllHooks",
    "disabledMcpjsonServers",
    "editorMode",
    "effortLevel",
    "enableAllProjectMcpServers",
    "enabledMcpjsonServers",
    "enabledPlugins",
    "extraKnownMarketplaces",
    "fastMode",
    "feedbackSurveyRate",
    "fileSuggestion",
    "forceLoginMethod",
    "forceLoginOrgUUID",
    "gcpAuthRefresh",
    "httpHookAllowedEnvVars",
    "includeCoAuthoredBy",
    "includeGitInstructions",
    "language",
    "minimumVersion",
    "model",
    "modelOverrides",
    "otelHeadersHelper",
    "outputStyle",
    "plansDirectory",
    "pluginConfigs",
    "prefersReducedMotion",
    "respectGitignore",
    "showThinkingSummaries",
    "showTurnDuration",
    "skipDangerousModePermissionPrompt",
    "spinnerTipsEnabled",
    "spinnerTipsOverride",
    "spinnerVerbs",
    "statusLine",
    "strictKnownMarketplaces",
    "teammateMode",
    "terminalProgressBarEnabled",
    "theme",
    "verbose",
    "viewMode",
];

const PERMISSIONS: &Keys = &[
    ("allow", Fate::Read),
    ("ask", Fate::Read),
    ("deny", Fate::Read),
    ("additionalDirectories", Fate::Read),
    ("defaultMode", Fate::Read),
    // There are no such modes.
    ("disableBypassPermissionsMode", Fate::Holds),
    ("disableAutoMode", Fate::Holds),
];

const SANDBOX: &Keys = &[
    ("enabled", Fate::Read),
    ("filesystem", Fate::Read),
    ("network", Fate::Read),
    ("credentials", Fate::Read),
    ("git", Fate::Read),
    // Nothing is asked, and a sandbox that cannot start is always an error.
    ("autoAllowBashIfSandboxed", Fate::Holds),
    ("failIfUnavailable", Fate::Holds),
    ("enabledPlatforms", Fate::Holds),
    (
        "excludedCommands",
        Fate::Refused("what is run, is run in the sandbox", Some("start these commands without stockade")),
    ),
    ("allowUnsandboxedCommands", Fate::Note("no command leaves the sandbox")),
];

pub(super) fn read(settings: &Value, places: &Places, owner: &Owner) -> Result<Draft, Error> {
    let (mut draft, mut lists) = (Draft::default(), Lists::default());
    let none = Map::new();
    let settings = settings.as_object().unwrap_or(&none);
    lists.project = Some("Claude Code's commands can write the working directory");
    let known: Map<String, Value> =
        settings.clone().into_iter().filter(|(key, _)| !ITS_OWN.contains(&&**key)).collect();
    tell(&known, "", KEYS, &mut draft);
    permissions(object(settings, "", "permissions")?, owner, &mut lists, &mut draft)?;
    sandbox(object(settings, "", "sandbox")?, owner, &mut lists, &mut draft)?;
    close_its_own(&mut lists, places);
    settle(&lists, places, &mut draft);
    environment(object(settings, "", "env")?, &mut draft)?;
    draft.note(
        "relative paths",
        "start at $PROJECT, the git work tree around the working directory; Claude Code's at the latter",
    );
    Ok(draft)
}

/// What Claude Code reads its own rules from, in [`at_home`]: no rule of the settings lets a command write these.
const GUARDED: [&str; 6] = ["settings.json", "settings.local.json", "hooks", "commands", "agents", "skills"];

fn close_its_own(lists: &mut Lists, places: &Places) {
    let own = at_home();
    let inside = |wish: &Wish| matches!(&wish.target, Target::Place(place) if places.covers(&own, place));
    if lists.write.iter().any(inside) {
        let closed = GUARDED.map(|name| Target::Place(own.join(name)));
        let from = "always denied by Claude Code";
        lists.read.extend(closed.into_iter().map(|target| Wish { target, from: from.to_owned() }));
    }
}

fn permissions(
    permissions: &Map<String, Value>,
    owner: &Owner,
    lists: &mut Lists,
    draft: &mut Draft,
) -> Result<(), Error> {
    tell(permissions, "permissions", PERMISSIONS, draft);
    let mut rules = Rules { owner, lists, draft };
    for list in [List::Deny, List::Ask, List::Allow] {
        for text in texts(permissions, "permissions", list.key())? {
            rules.read(list, text);
        }
    }
    for directory in texts(permissions, "permissions", "additionalDirectories")? {
        rules.directory(directory);
    }
    if text(permissions, "permissions", "defaultMode")? == Some("plan") {
        let cure = "`--read '$PROJECT' --git closed` for such a run";
        draft.refuse("permissions.defaultMode: \"plan\"", "there is no mode that changes nothing", Some(cure));
    }
    Ok(())
}

fn sandbox(sandbox: &Map<String, Value>, owner: &Owner, lists: &mut Lists, draft: &mut Draft) -> Result<(), Error> {
    // The rest is srt's.
    let keys: Vec<(&str, Fate)> = SANDBOX.iter().chain(srt::KEYS).copied().collect();
    tell(sandbox, "sandbox", &keys, draft);
    let relative = relative(owner);
    let filesystem = object(sandbox, "sandbox", "filesystem")?;
    sandbox::filesystem(filesystem, "sandbox.filesystem", &relative, lists, draft)?;
    let credentials = object(sandbox, "sandbox", "credentials")?;
    sandbox::credentials(credentials, "sandbox.credentials", &relative, lists, draft)?;
    srt::git(sandbox, "sandbox", draft)?;
    network::read(object(sandbox, "sandbox", "network")?, "sandbox.network", draft)?;
    if switch(sandbox, "sandbox", "enabled")? == Some(true) {
        sandbox::never(filesystem, "sandbox.filesystem", lists, draft)
    } else {
        draft.note(
            "sandbox.enabled",
            "it is off: there, commands may do all that the user may; here, what this policy says",
        );
        Ok(())
    }
}

/// Where relative paths of the sandbox start.
fn relative(owner: &Owner) -> Relative {
    match owner {
        Owner::Project => Some(Place::project()),
        Owner::User => Some(at_home()),
        Owner::Unknown => None,
    }
}

/// The directory of the user's own settings.
pub(super) fn at_home() -> Place {
    Place { base: Base::Home, names: vec![".claude".to_owned()] }
}

fn environment(env: &Map<String, Value>, draft: &mut Draft) -> Result<(), Error> {
    for (name, value) in env {
        let value = value.as_str().filter(|value| !value.contains('\0') && is_variable(name));
        let value = value.ok_or_else(|| Error::wrong(join("env", name), "a variable and its text"))?;
        draft.set.insert(name.clone(), (value.to_owned(), from("env", &Value::String(name.clone()))));
    }
    Ok(())
}
