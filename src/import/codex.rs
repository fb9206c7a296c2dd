//! Codex's `config.toml`.

use serde_json::{Map, Value};

use super::draft::Draft;
use super::keys::{Fate, Keys, from, object, switch, tell, text, texts};
use super::place::{Base, Place, Places, Target};
use super::settle::{Lists, Wish, settle};
use super::{Error, codex_environment, codex_profile};

const KEYS: &Keys = &[
    ("sandbox_mode", Fate::Read),
    ("sandbox_workspace_write", Fate::Read),
    ("default_permissions", Fate::Read),
    ("permissions", Fate::Read),
    ("projects", Fate::Read),
    ("shell_environment_policy", Fate::Read),
    ("profile", Fate::Refused("keys of a profile are not read", Some("copy its keys to the top level"))),
    ("profiles", Fate::Note("profiles are not read: keys at the top level count")),
    (
        "hooks",
        Fate::Refused("what a hook forbids is not forbidden here", Some("keep the hooks in Codex, or rule the paths")),
    ),
];

/// Keys that are about Codex itself, not about what its commands may do.
const ITS_OWN: &[&str] = &[
    "agents",
    "allow_login_shell",
    "analytics",
    "approval_policy",
    "approvals_reviewer",
    "apps",
    "audio",
    "auto_review",
    "background_terminal_max_timeout",
    "chatgpt_base_url",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "commit_attribution",
    "compact_prompt",
    "developer_instructions",
    "disable_paste_burst",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
    "features",
    "feedback",
    "file_opener",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "ghost_snapshot",
    "hide_agent_reasoning",
    "history",
    "include_apply_patch_tool",
    "include_environment_context",
    "include_permissions_instructions",
    "instructions",
    "log_dir",
    "marketplaces",
    "mcp_oauth_callback_port",
    "mcp_oauth_callback_url",
    "mcp_oauth_credentials_store",
    "mcp_servers",
    "memories",
    "model",
    "model_auto_compact_token_limit",
    "model_catalog_json",
    "model_context_window",
    "model_instructions_file",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_supports_reasoning_summaries",
    "model_verbosity",
    "notice",
    "notify",
    "openai_base_url",
    "oss_provider",
    "otel",
    "personality",
    "plan_mode_reasoning_effort",
    "plugins",
    "project_doc_fallback_filenames",
    "project_doc_max_bytes",
    "project_root_markers",
    "realtime",
    "review_model",
    "service_tier",
    "show_raw_agent_reasoning",
    "skills",
    "sqlite_home",
    "suppress_unstable_features_warning",
    "tool_output_token_limit",
    "tool_suggest",
    "tools",
    "tui",
    "web_search",
    "windows",
    "zsh_path",
];

const WORKSPACE: &Keys = &[
    ("writable_roots", Fate::Read),
    ("network_access", Fate::Read),
    ("exclude_tmpdir_env_var", Fate::Read),
    ("exclude_slash_tmp", Fate::Read),
];

/// Names that Codex lets nobody write in a directory that can be written.
pub(super) const CLOSED: [&str; 4] = [".git", ".agents", ".aws", ".codex"];
const TMP: &str = "a session has a /tmp of its own, which can be written; the host's cannot";

pub(super) fn parse(settings: &str) -> Result<Value, Error> {
    toml::from_str(settings).map_err(|error| {
        let line = error.span().map_or(1, |span| settings[..span.start].matches('\n').count() + 1);
        Error::Toml(format!("line {line}: {}", error.message().replace('\n', ", ")))
    })
}

pub(super) fn read(settings: &Value, places: &Places) -> Result<Draft, Error> {
    let mut draft = Draft::default();
    let none = Map::new();
    let settings = settings.as_object().unwrap_or(&none);
    let known: Map<String, Value> =
        settings.clone().into_iter().filter(|(key, _)| !ITS_OWN.contains(&&**key)).collect();
    tell(&known, "", KEYS, &mut draft);
    let profile = text(settings, "", "default_permissions")?;
    match (text(settings, "", "sandbox_mode")?, profile) {
        (Some(mode), profile) => {
            if let Some(profile) = profile {
                draft.note(&format!("default_permissions: {profile:?}"), "sandbox_mode is there, and counts instead");
            }
            by_mode(settings, mode, places, &mut draft)?;
        }
        (None, Some(name)) => codex_profile::read(settings, name, places, &mut draft)?,
        (None, None) => by_default(settings, places, &mut draft)?,
    }
    codex_environment::read(object(settings, "", "shell_environment_policy")?, &mut draft)?;
    draft.note("/tmp, $TMPDIR", TMP);
    draft.note("the working directory", "is $PROJECT here, the git work tree around it");
    Ok(draft)
}

/// Codex has no mode of its own for a directory that nobody trusts: nothing is changed there.
fn by_default(settings: &Map<String, Value>, places: &Places, draft: &mut Draft) -> Result<(), Error> {
    for (path, project) in object(settings, "", "projects")? {
        if project.get("trust_level").and_then(Value::as_str) == Some("trusted") {
            let cure = "add sandbox_mode = \"workspace-write\"";
            draft.refuse(&format!("projects.{path:?}: trusted"), "a policy is the same for all projects", Some(cure));
        }
    }
    draft.network = Some(("none", "no sandbox_mode: \"read-only\"".to_owned()));
    settle(&Lists::default(), places, draft);
    Ok(())
}

fn by_mode(settings: &Map<String, Value>, mode: &str, places: &Places, draft: &mut Draft) -> Result<(), Error> {
    let from = format!("sandbox_mode: {mode:?}");
    let mut lists = Lists { specific: true, ..Lists::default() };
    draft.network = Some(("none", from.clone()));
    match mode {
        "read-only" => {}
        "workspace-write" => workspace(settings, &mut lists, draft)?,
        "danger-full-access" => {
            draft.refuse(&from, "a run always has a policy", Some("run the command without stockade"));
        }
        _ => return Err(Error::wrong("sandbox_mode", "\"read-only\", \"workspace-write\" or \"danger-full-access\"")),
    }
    settle(&lists, places, draft);
    if lists.project.is_some() {
        draft.git = Some(("closed", format!("{from}: .git cannot be written")));
    }
    Ok(())
}

fn workspace(settings: &Map<String, Value>, lists: &mut Lists, draft: &mut Draft) -> Result<(), Error> {
    let key = "sandbox_workspace_write";
    let table = object(settings, "", key)?;
    tell(table, key, WORKSPACE, draft);
    lists.project = Some("sandbox_mode: \"workspace-write\"");
    close(&Place::project(), "sandbox_mode: \"workspace-write\"", lists);
    for path in texts(table, key, "writable_roots")? {
        let from = format!("{key}.writable_roots: {path:?}");
        match absolute(path) {
            Ok(root) => {
                close(&root, &from, lists);
                lists.write.push(Wish { target: Target::Place(root), from });
            }
            Err(why) => draft.refuse(&from, why, Some("write the path from the root, without it")),
        }
    }
    if switch(table, key, "network_access")? == Some(true) {
        draft.network = Some(("host", from(&format!("{key}.network_access"), &Value::Bool(true))));
    }
    switch(table, key, "exclude_tmpdir_env_var")?;
    switch(table, key, "exclude_slash_tmp")?;
    Ok(())
}

/// The names that stay closed in a directory that can be written.
pub(super) fn close(root: &Place, from: &str, lists: &mut Lists) {
    for name in CLOSED {
        // Of the project's own `.git` the policy's `git` speaks.
        if (root, name) != (&Place::project(), ".git") {
            let from = format!("{from}: {name} cannot be written");
            lists.read.push(Wish { target: Target::Place(root.join(name)), from });
        }
    }
}

/// A path that does not depend on where anything is.
pub(super) fn absolute(path: &str) -> Result<Place, &'static str> {
    match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Place::new(Base::Home, rest),
        None if path.starts_with('/') => Place::new(Base::Root, path),
        _ => Err("a relative path starts in ~/.codex there"),
    }
}
