//! Whole settings: what the policies say of paths, and what is told.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::{Error, Imported, Owner, Surroundings, Tool};
use crate::policy::{self, Access, Context, Network, Policy, Sources};

const SRT: &str = include_str!("../../tests/settings/srt.json");
const SRT_PARTIAL: &str = include_str!("../../tests/settings/srt-partial.json");
const CLAUDE: &str = include_str!("../../tests/settings/claude.json");
const CLAUDE_PARTIAL: &str = include_str!("../../tests/settings/claude-partial.json");
const CODEX: &str = include_str!("../../tests/settings/codex.toml");
const CODEX_PROFILE: &str = include_str!("../../tests/settings/codex-profile.toml");
const CODEX_PARTIAL: &str = include_str!("../../tests/settings/codex-partial.toml");

use Access::{Hide, Private, Read, Write};

fn imported(tool: Tool, settings: &str, owner: Owner) -> Result<Imported, Error> {
    super::import(
        tool,
        settings,
        &Surroundings { file: Path::new("settings"), home: "/home/me", real_home: "/data/me", owner },
    )
}

fn import(tool: Tool, settings: &str) -> Imported {
    imported(tool, settings, Owner::Project).expect("settings")
}

/// The policy that a run in a project would have.
fn loaded(text: &str, project: &str) -> Policy {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("policy.toml");
    std::fs::write(&file, text).expect("written");
    let (home, project) = (PathBuf::from("/home/me"), PathBuf::from(project));
    let context = Context { home, cwd: project.clone(), project, ..Context::default() };
    policy::load(&Sources { context, files: vec![file], ..Sources::default() })
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Each path has this access; `p/` begins those in the project, `~/` those at home.
#[track_caller]
fn gives(imported: &Imported, expected: &[(&str, Access)]) {
    let policy = loaded(&imported.policy, "/home/me/p");
    for (path, access) in expected {
        let path = path.replacen("p/", "/home/me/p/", usize::from(path.starts_with("p/")));
        let path = path.replacen('~', "/home/me", usize::from(path.starts_with('~')));
        assert_eq!(policy.rules.judge(Path::new(&path)).access, *access, "{path}\n{}", imported.policy);
    }
}

/// The keys that are not kept, each with the beginning of its value.
fn refused(imported: &Imported) -> Vec<&str> {
    imported.refused.iter().map(|remark| remark.key.as_str()).collect()
}

#[track_caller]
fn keeps_all(imported: &Imported) {
    assert_eq!(refused(imported), Vec::<&str>::new());
}

/// Settings of srt with these lists.
fn srt(lists: &str) -> Imported {
    import(Tool::Srt, &format!(r#"{{"network":{{"allowedDomains":[]}},"filesystem":{{{lists}}}}}"#))
}

fn claude(permissions: &str) -> Imported {
    import(Tool::Claude, &format!(r#"{{"permissions":{{{permissions}}}}}"#))
}

#[test]
fn settings_of_srt() {
    let imported = import(Tool::Srt, SRT);
    keeps_all(&imported);
    gives(
        &imported,
        &[
            ("p/f", Write),
            ("p/.env", Read),
            ("p/config/production.json", Read),
            ("p/a/b.snap", Read),
            ("p/sub/.bashrc", Read),
            ("p/sub/.vscode/x", Read),
            ("p/sub/.git/hooks/x", Read),
            ("p/private/x", Hide),
            ("~/.config/tokens/x", Hide),
            ("~/.config/tokens/public/x", Read),
            ("~/.tool/key", Hide),
            ("~/.cache/tool/x", Write),
            ("~/shared/locked/inner", Read),
            ("/tmp/x", Private),
            ("/etc/passwd", Read),
        ],
    );
    let policy = loaded(&imported.policy, "/home/me/p");
    assert_eq!(policy.network.value, Network::None);
    assert_eq!(policy.environment.unset, ["TOOL_TOKEN"]);
}

#[test]
fn what_srt_says_and_a_policy_cannot() {
    let imported = import(Tool::Srt, SRT_PARTIAL);
    let keys = [
        "allowNestedUserNamespaces: true",
        r#"futureKey: {"a":1}"#,
        r#"filesystem.denyWrite: "~other/x""#,
        r#"filesystem.denyWrite: "../sibling""#,
        r#"filesystem.denyWrite: "a**b""#,
        r#"credentials.envVars: {"injectHosts":["github.com"],"mode":"mask","name":"API_KEY"}"#,
        r#"filesystem.denyRead: "**/.env""#,
        r#"filesystem.allowWrite: "build/*""#,
        r#"filesystem.allowWrite: "/run/user""#,
        "network.httpProxyPort: 8080",
        r#"network.allowedDomains: ["github.com","*.npmjs.org"]"#,
        "network.allowAllUnixSockets: false",
        r#"git.safeDirectories: ["/srv/repo"]"#,
    ];
    assert_eq!(refused(&imported), keys);
    // What is left is the stricter choice, and says what is missing.
    let expected = [("p/f", Read), ("p/src/f", Write), ("p/.env", Hide), ("p/src/.env", Read), ("/run/user", Private)];
    gives(&imported, &expected);
    gives(&imported, &[("~/.ssh/known_hosts", Hide), ("p/.git/HEAD", Read), ("p/.git/objects/x", Read)]);
    assert!(imported.policy.contains("# - futureKey"), "{}", imported.policy);
}

#[test]
fn settings_of_claude_code() {
    let imported = import(Tool::Claude, CLAUDE);
    keeps_all(&imported);
    gives(
        &imported,
        &[
            ("p/src/f", Write),
            ("p/secrets/x", Hide),
            ("p/dist/x", Read),
            ("p/a/generated/x", Read),
            ("p/a/b.snap", Read),
            ("p/vendor/x", Read),
            ("~/.tool/config", Hide),
            ("~/.npmrc", Hide),
            ("~/notes/x", Write),
            ("~/docs/x", Write),
            ("~/locked/inner/x", Read),
            ("~/.cache/build/x", Write),
            ("~/other", Read),
        ],
    );
    let set = loaded(&imported.policy, "/home/me/p").environment.set;
    assert_eq!(set[1], ("GREETING".into(), "a \"quoted\" $HOME\nline".into()));
}

#[test]
fn what_claude_code_says_and_a_policy_cannot() {
    let imported = import(Tool::Claude, CLAUDE_PARTIAL);
    let told = refused(&imported).join("\n");
    for key in [
        "hooks:",
        "unheardOf: true",
        r#"permissions.allow: "WebFetch(domain:docs.rs)""#,
        r#"permissions.allow: "Write(~/elsewhere/**)""#,
        r#"permissions.ask: "Edit(Makefile)""#,
        r#"permissions.ask: "Bash(git push:*)""#,
        r#"permissions.deny: "Read(.env)""#,
        r#"permissions.deny: "Read(**/*.pem)""#,
        r#"permissions.deny: "Bash(curl:*)""#,
        r#"permissions.deny: "WebSearch""#,
        r#"permissions.deny: "Read(!keep)""#,
        r#"permissions.deny: "Edit""#,
        r#"permissions.additionalDirectories: "../docs""#,
        r#"permissions.defaultMode: "plan""#,
        r#"sandbox.excludedCommands: ["docker"]"#,
        r#"sandbox.network.allowedDomains: ["crates.io"]"#,
    ] {
        assert!(told.contains(key), "{key} in\n{told}");
    }
    assert_eq!(imported.refused.len(), 16);
    gives(&imported, &[("p/f", Read), ("p/.env", Hide), ("p/a/x.pem", Read), ("~/elsewhere/x", Read)]);
}

#[test]
fn where_a_slash_of_claude_code_begins_depends_on_the_file() {
    let settings = r#"{"permissions":{"deny":["Edit(/a/**)"]},"sandbox":{"filesystem":{"denyWrite":["b"]}}}"#;
    let of = |owner| imported(Tool::Claude, settings, owner).expect("settings");
    gives(&of(Owner::Project), &[("p/a/x", Read), ("p/b/x", Read)]);
    let of_user = of(Owner::User);
    gives(&of_user, &[("p/a/x", Write), ("~/.claude/a", Read)]);
    assert!(of_user.policy.contains("\"~/.claude/a\"") && of_user.policy.contains("\"~/.claude/b\""));
    assert_eq!(of(Owner::Unknown).refused.len(), 2);
}

#[test]
fn no_rule_of_claude_code_opens_its_own_settings() {
    let settings =
        r#"{"permissions":{"allow":["Edit(/settings.json)","Edit(~/.claude/**)","Edit(//home/me/.claude/hooks/x)"]}}"#;
    let imported = imported(Tool::Claude, settings, Owner::User).expect("settings");
    for name in ["settings.json", "settings.local.json", "hooks/x", "commands/x", "agents/x", "skills/x"] {
        gives(&imported, &[(&format!("~/.claude/{name}"), Read)]);
    }
    gives(&imported, &[("~/.claude/plans/x", Write)]);
}

#[test]
fn settings_of_codex() {
    let imported = import(Tool::Codex, CODEX);
    keeps_all(&imported);
    gives(
        &imported,
        &[
            ("p/f", Write),
            ("p/.git/HEAD", Read),
            ("p/.aws/x", Read),
            ("/srv/build/x", Write),
            ("/srv/build/.git/x", Read),
            ("~/.cache/tool/.codex", Read),
            ("~/x", Read),
        ],
    );
    let keep = loaded(&imported.policy, "/home/me/p").environment.keep.expect("a list");
    assert!(keep.contains(&"HOME".to_owned()) && !keep.contains(&"LANG".to_owned()), "{keep:?}");
}

#[test]
fn modes_of_codex() {
    let text = |mode: &str| format!("sandbox_mode = \"{mode}\"\n[sandbox_workspace_write]\nnetwork_access = true\n");
    for (mode, access, network) in [("read-only", Read, Network::None), ("workspace-write", Write, Network::Host)] {
        let imported = import(Tool::Codex, &text(mode));
        keeps_all(&imported);
        gives(&imported, &[("p/f", access), ("p/.git/objects/x", Read), ("p/.git/HEAD", Read)]);
        assert_eq!(loaded(&imported.policy, "/home/me/p").network.value, network, "{mode}");
    }
    let open = import(Tool::Codex, &text("danger-full-access"));
    assert_eq!(refused(&open), ["sandbox_mode: \"danger-full-access\""]);
    gives(&open, &[("p/f", Read)]);
    gives(&import(Tool::Codex, ""), &[("p/f", Read)]);
    let trusted = import(Tool::Codex, "[projects.\"/p\"]\ntrust_level = \"trusted\"\n");
    assert_eq!(refused(&trusted), ["projects.\"/p\": trusted"]);
}

#[test]
fn permission_profiles_of_codex() {
    let imported = import(Tool::Codex, CODEX_PROFILE);
    keeps_all(&imported);
    gives(
        &imported,
        &[
            ("p/f", Write),
            ("p/docs/x", Read),
            ("p/private/x", Hide),
            ("p/.git/HEAD", Read),
            ("~/other/x", Write),
            ("~/other/docs/x", Read),
            ("~/other/.git/config", Read),
            ("~/data/x", Write),
            ("~/data/raw/x", Read),
            ("~/.secrets/x", Hide),
            ("~/.secrets/public/x", Read),
        ],
    );
    assert_eq!(loaded(&imported.policy, "/home/me/p").network.value, Network::Host);
    let partial = import(Tool::Codex, CODEX_PARTIAL);
    assert_eq!(partial.refused.len(), 3, "{:?}", partial.refused);
    assert_eq!(loaded(&partial.policy, "/home/me/p").network.value, Network::None);
    gives(&partial, &[("p/a/x.env", Read)]);
}

#[test]
fn a_profile_shows_only_what_it_names() {
    let settings = "default_permissions = \"d\"\n[permissions.d.filesystem]\n\":minimal\" = \"read\"\n\"/srv/in\" = \"read\"\n\
        \":workspace_roots\" = \"read\"\n";
    let imported = import(Tool::Codex, settings);
    keeps_all(&imported);
    let expected =
        [("/srv/x", Hide), ("/srv/in/x", Read), ("/usr/bin/env", Read), ("p/f", Read), ("~/.ssh/known_hosts", Hide)];
    gives(&imported, &expected);
    let blind = settings.replace("\":workspace_roots\" = \"read\"\n", "");
    assert_eq!(import(Tool::Codex, &blind).refused.len(), 1);
}

#[test]
fn an_empty_list_of_domains_is_no_network_and_none_is_a_question() {
    keeps_all(&srt(""));
    let open = import(Tool::Srt, r#"{"network":{},"filesystem":{}}"#);
    assert_eq!(refused(&open), ["no network.allowedDomains"]);
    assert_eq!(loaded(&open.policy, "/home/me/p").network.value, Network::None);
}

#[test]
fn a_denial_wins_over_what_is_allowed_in_it() {
    // Known when the settings are read, by whatever name.
    let known = srt(r#""allowWrite":[".","/home/me/a/b","~/c/x.env"],"denyWrite":["~/a","**/x"],"denyRead":[]"#);
    gives(&known, &[("~/a/b/f", Read), ("~/a/b", Read), ("p/a/x/f", Read), ("~/c/x.env", Write)]);
    // Known only when a run starts: the project lies in it.
    let unknown = srt(r#""allowWrite":[".","src"],"denyWrite":["~"]"#);
    gives(&unknown, &[("p/f", Read), ("p/src/f", Read)]);
    let absolute = srt(r#""allowWrite":[".","/home/me/p/a/b"],"denyWrite":["a"]"#);
    gives(&absolute, &[("p/f", Write), ("p/a/b/f", Read)]);
    // A pattern, and a rule that names as much.
    let pattern = srt(r#""allowWrite":[".","deep/x.env","deep/x.env/in"],"denyWrite":["**/*.env"]"#);
    gives(&pattern, &[("p/deep/x.env", Read), ("p/deep/x.env/in", Read)]);
    // srt's own denials too.
    gives(&srt(r#""allowWrite":[".",".vscode","a/.git/hooks"]"#), &[("p/.vscode/x", Read), ("p/a/.git/hooks/x", Read)]);
}

#[test]
fn a_home_behind_a_link_is_one_place() {
    let imported = srt(r#""allowWrite":["~/a/x","/data/me/b/x"],"denyWrite":["/data/me/a","/home/me/b"]"#);
    for path in ["/home/me/a/x", "/data/me/a/x", "/home/me/b/x", "/data/me/b/x"] {
        gives(&imported, &[(path, Read)]);
    }
}

#[test]
fn all_of_the_host_holds_every_project() {
    let whole = srt(r#""allowWrite":["/"],"denyWrite":["/etc"]"#);
    gives(&whole, &[("p/f", Write), ("/srv/x", Write), ("/etc/x", Read), ("~/.ssh/x", Hide)]);
    let told = srt(r#""allowWrite":["~"]"#);
    gives(&told, &[("p/f", Read), ("~/f", Write)]);
    assert!(told.notes.iter().any(|note| note.key == "the project"));
}

/// Found by trying: lists in which one path starts from the project and another from the root.
#[test]
fn paths_that_meet_only_when_a_run_starts() {
    // Hidden and denied, with the project in it.
    let project = srt(r#""denyRead":["~"],"allowWrite":["."],"denyWrite":["~"]"#);
    gives(&project, &[("p/f", Read), ("~/f", Hide)]);
    // A denial in what is hidden by another name shows nothing.
    let named = srt(r#""denyRead":["/home/me/p/a"],"denyWrite":["a/b"]"#);
    gives(&named, &[("p/a/b/f", Hide)]);
    let rooted = srt(r#""denyRead":["a"],"allowWrite":["."],"denyWrite":["/home/me/p/a/b"]"#);
    gives(&rooted, &[("p/a/b/f", Hide)]);
    // The project denied, and allowed by its name from the root.
    let whole = srt(r#""allowWrite":["/home/me/p/a"],"denyWrite":["."]"#);
    gives(&whole, &[("p/a/f", Read)]);
}

/// By what settings call a path: it starts at home, in the project (which is `/home/me/p`), or at the root.
fn path() -> impl Strategy<Value = String> {
    let start = prop::sample::select(vec!["", "./", "~/", "/home/me/", "/home/me/p/", "~/p/", "/srv/"]);
    (start, prop::collection::vec(prop::sample::select(vec!["a", "b", "p"]), 0..3)).prop_map(|(start, names)| {
        let path = format!("{start}{}", names.join("/"));
        if path.is_empty() { ".".to_owned() } else { path }
    })
}

fn absolute(path: &str) -> PathBuf {
    let path = match path.strip_prefix('~') {
        Some(rest) => format!("/home/me{rest}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("/home/me/p/{path}"),
    };
    Path::new(&path).components().filter(|part| *part != std::path::Component::CurDir).collect()
}

fn lists() -> impl Strategy<Value = [Vec<String>; 4]> {
    let list = || prop::collection::vec(path(), 0..3);
    (list(), list(), list(), list()).prop_map(|(hide, show, allow, deny)| [hide, show, allow, deny])
}

fn deepest(list: &[PathBuf], path: &Path) -> Option<usize> {
    list.iter().filter(|dir| path.starts_with(dir)).map(|dir| dir.components().count()).max()
}

/// The policy of a run in `/home/me/p`, unless two of its rules turn out to name one path: then none starts.
fn taken(text: &str) -> Option<Policy> {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("policy.toml");
    std::fs::write(&file, text).expect("written");
    let (home, project) = (PathBuf::from("/home/me"), PathBuf::from("/home/me/p"));
    let context = Context { home, cwd: project.clone(), project, ..Context::default() };
    match policy::load(&Sources { context, files: vec![file], ..Sources::default() }) {
        Ok(policy) => Some(policy),
        Err(error) if error.to_string().contains("one layer cannot say both") => None,
        Err(error) => panic!("{error}\n{text}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// What srt denies, by its own rules of precedence, no policy that is taken allows.
    #[test]
    fn nothing_is_weakened(lists in lists(), asked in prop::collection::vec(path(), 12)) {
        let [hide, show, allow, deny] = &lists;
        let settings = serde_json::json!({ "network": { "allowedDomains": [] }, "filesystem":
            { "denyRead": hide, "allowRead": show, "allowWrite": allow, "denyWrite": deny } });
        let imported = imported(Tool::Srt, &settings.to_string(), Owner::Project).expect("settings");
        let [hide, show, allow, deny] = lists.map(|list| list.iter().map(|path| absolute(path)).collect::<Vec<_>>());
        let policy = taken(&imported.policy).filter(|_| imported.refused.is_empty());
        for (asked, policy) in asked.iter().filter_map(|asked| Some((asked, policy.as_ref()?))) {
            // Below it: the one path that a rule names is as specific as a pattern.
            let path = absolute(asked).join("f");
            let access = policy.rules.judge(&path).access;
            let may_write = deepest(&allow, &path).is_some() && deepest(&deny, &path).is_none();
            prop_assert!(access != Write || may_write, "{} can be written\n{}", path.display(), imported.policy);
            let is_hidden = deepest(&hide, &path) > deepest(&show, &path).max(deepest(&allow, &path));
            prop_assert!(!is_hidden || access == Hide, "{} is seen\n{}", path.display(), imported.policy);
        }
    }
}

#[test]
fn what_is_hidden_is_not_shown_by_another_list() {
    // A `read` rule would show it.
    gives(&srt(r#""allowWrite":["."],"denyRead":["~/x"],"denyWrite":["~/x/y","~/x/*.pem"]"#), &[("~/x/y", Hide)]);
    gives(
        &srt(r#""allowWrite":["."],"denyWrite":["~/.ssh","~/.aws/config"]"#),
        &[("~/.ssh/id", Hide), ("~/.aws/config", Hide)],
    );
    gives(
        &srt(r#""allowWrite":["."],"denyWrite":["/tmp","/run/x"],"allowRead":["/run/docker.sock"]"#),
        &[("/tmp/x", Private), ("/run/x", Private), ("/run/docker.sock", Private)],
    );
    // What is denied and allowed by name: reading wins there, as srt has it, but never over a credential.
    gives(&srt(r#""denyRead":["~/x"],"allowRead":["~/x"]"#), &[("~/x/y", Read)]);
    gives(&srt(r#""denyRead":["~/x"],"allowWrite":["~/x"]"#), &[("~/x/y", Hide)]);
    let secret = r#"{"network":{"allowedDomains":[]},"filesystem":{"allowRead":["~/x/y"],"allowWrite":["~/x/z"]},
        "credentials":{"files":[{"path":"~/x","mode":"deny"}]}}"#;
    gives(&import(Tool::Srt, secret), &[("~/x/y", Hide), ("~/x/z", Hide)]);
    // In a directory that is shown again, a denial holds again.
    let nested = srt(r#""denyRead":["~","./secrets"],"allowRead":["."],"allowWrite":["."]"#);
    gives(&nested, &[("~/f", Hide), ("p/f", Write), ("p/secrets/x", Hide), ("~/.ssh/known_hosts", Hide)]);
}

#[test]
fn a_project_that_cannot_be_seen_is_not_promised() {
    assert_eq!(srt(r#""denyRead":["~"]"#).refused.len(), 1);
    assert_eq!(srt(r#""denyRead":["."]"#).refused.len(), 1);
    assert_eq!(srt(r#""denyRead":["/"]"#).refused.len(), 1);
    keeps_all(&srt(r#""denyRead":["~"],"allowRead":["."]"#));
}

#[test]
fn names_mean_themselves() {
    let imported =
        srt(r#""allowWrite":["~/a b/\"q\"","~/${HOME}","~/n\nl","~/{x,y}","~/é\u202e\u007f","~/b\\s"],"denyWrite":[]"#);
    keeps_all(&imported);
    for path in ["~/a b/\"q\"", "~/${HOME}", "~/n\nl", "~/{x,y}", "~/é\u{202e}\u{7f}", "~/b\\s"] {
        gives(&imported, &[(path, Write)]);
    }
    gives(&imported, &[("~/x", Read), ("~/n", Read)]);
    let comments = imported.policy.lines().filter(|line| line.trim_start().starts_with('#'));
    assert!(comments.clone().count() > 6 && comments.clone().all(|line| !line.contains(['\u{202e}', '\u{7f}'])));
    let literal =
        srt(r#""allowWrite":[".",{"path":"~/*","literal":true}],"denyWrite":[{"path":"[x]","literal":true}]"#);
    gives(&literal, &[("~/*", Write), ("~/x", Read), ("p/[x]", Read), ("p/x", Write)]);
}

#[test]
fn repeated_elements_are_one_rule() {
    let imported = srt(r#""allowWrite":["~/a","~/a/","/home/me/a","~/a"],"denyWrite":["b","b","./b"]"#);
    gives(&imported, &[("~/a/x", Write)]);
    assert_eq!(imported.policy.matches("\"~/a\", optional").count(), 1, "{}", imported.policy);
}

#[test]
fn what_the_tool_would_not_read_is_an_error() {
    for (tool, settings) in [
        (Tool::Srt, "nonsense"),
        (Tool::Srt, "[]"),
        (Tool::Srt, r#"{"filesystem":{"denyRead":"~/.ssh"}}"#),
        (Tool::Srt, r#"{"filesystem":{"denyRead":[1]}}"#),
        (Tool::Srt, r#"{"filesystem":{"denyRead":[""]}}"#),
        (Tool::Srt, r#"{"filesystem":{"denyRead":[{"path":"x"}]}}"#),
        (Tool::Srt, r#"{"filesystem":{"denyRead":[{"path":"x","literal":true,"more":1}]}}"#),
        (Tool::Srt, r#"{"credentials":{"files":[{"path":"x","mode":"dney"}]}}"#),
        (Tool::Srt, r#"{"credentials":{"envVars":[{"name":"*","mode":"deny"}]}}"#),
        (Tool::Claude, r#"{"permissions":{"deny":"Read(x)"}}"#),
        (Tool::Claude, r#"{"permissions":[]}"#),
        (Tool::Claude, r#"{"env":{"A=B":"x"}}"#),
        (Tool::Claude, r#"{"env":{"A":1}}"#),
        (Tool::Codex, "sandbox_mode = \"red-only\""),
        (Tool::Codex, "sandbox_mode = "),
        (Tool::Codex, "default_permissions = \"absent\""),
        (Tool::Codex, "default_permissions = \":absent\""),
        (Tool::Codex, "default_permissions = \"a\"\n[permissions.a]\nextends = \"a\""),
        (Tool::Codex, "default_permissions = \"a\"\n[permissions.a.filesystem]\n\"/x\" = \"wirte\""),
        (Tool::Codex, "[shell_environment_policy]\ninherit = \"some\""),
    ] {
        assert!(imported(tool, settings, Owner::Project).is_err(), "{settings}");
    }
}

#[test]
fn unknown_keys_are_told_wherever_they_are() {
    let settings =
        r#"{"network":{"allowedDomains":[],"x":1},"filesystem":{"denyraed":["~/x"]},"credentials":{"y":1},"z":1}"#;
    let told = import(Tool::Srt, settings);
    assert_eq!(refused(&told), ["z: 1", r#"filesystem.denyraed: ["~/x"]"#, "credentials.y: 1", "network.x: 1"]);
    assert_eq!(claude(r#""dney":[]"#).refused.len(), 1);
    let codex = "sandbox_mode = \"read-only\"\nx = 1\n[shell_environment_policy]\ny = 1\n";
    assert_eq!(import(Tool::Codex, codex).refused.len(), 2);
}

#[test]
fn variables_of_codex_are_kept_out_whatever_their_case() {
    let keep = |policy: &str| {
        let imported =
            import(Tool::Codex, &format!("sandbox_mode = \"read-only\"\n[shell_environment_policy]\n{policy}"));
        (loaded(&imported.policy, "/p").environment, imported.refused.len())
    };
    assert_eq!(keep("inherit = \"none\"\nset = { A = \"1\" }").0.keep, Some(Vec::new()));
    assert_eq!(keep("").0.keep, None);
    let (environment, refused) = keep("exclude = [\"AWS_*\"]");
    assert!(environment.keep.is_some_and(|keep| keep.len() == 11) && refused == 1);
    let (environment, refused) = keep("include_only = [\"PATH\", \"LC_*\"]\nset = { A = \"1\", LC_X = \"2\" }");
    assert_eq!((environment.keep, refused), (Some(vec!["PATH".to_owned(), "LC_*".to_owned()]), 0));
    assert_eq!(environment.set, [("LC_X".into(), "2".into())]);
    let (environment, refused) = keep("include_only = [\"*PATH*\"]");
    assert_eq!((environment.keep, refused), (Some(vec!["PATH".to_owned()]), 1));
}
