//! Settings of other tools become policies that are taken, and that hold.

use std::fs;
use std::path::Path;

use crate::support::git::{dated, repository};
use crate::support::{Outcome, Run, Sandbox, real_home};

const SRT: &str = include_str!("../settings/srt.json");
const SRT_PARTIAL: &str = include_str!("../settings/srt-partial.json");
const CLAUDE: &str = include_str!("../settings/claude.json");
const CLAUDE_PARTIAL: &str = include_str!("../settings/claude-partial.json");
const CODEX: &str = include_str!("../settings/codex.toml");
const CODEX_PROFILE: &str = include_str!("../settings/codex-profile.toml");
const CODEX_PARTIAL: &str = include_str!("../settings/codex-partial.toml");

fn import(sandbox: &Sandbox, tool: &str, file: &Path, options: &[&str]) -> Outcome {
    sandbox.stockade(&["import", tool]).option(file).options(options).plain()
}

/// A project with what the settings speak of, and its policy.
fn project(tool: &str, name: &str, settings: &str) -> (Sandbox, String) {
    let sandbox = repository();
    for file in [".env", "f", "private/x", "secrets/x", "dist/x", "vendor/x", "a/generated/x", "a/b.snap", "docs/x"] {
        sandbox.file(file, "project");
    }
    for file in [
        ".config/tokens/x",
        ".config/tokens/public/x",
        ".netrc",
        ".npmrc",
        ".tool/key",
        ".tool/config",
        ".cache/tool/x",
        ".cache/build/x",
        "shared/locked/inner/x",
        "notes/x",
        "locked/inner/x",
        "data/x",
        "data/raw/x",
        "other/docs/x",
        ".secrets/x",
        ".secrets/public/x",
    ] {
        sandbox.file_beside(&format!("h/{file}"), "home");
    }
    let file = sandbox.file(name, settings);
    let policy = import(&sandbox, tool, &file, &[]).ok().out;
    (sandbox, policy)
}

fn run<'a>(sandbox: &'a Sandbox, policy: &str) -> Run<'a> {
    sandbox.run().policy(policy)
}

/// The policy is one that `explain` shows; each of the first can be written, each of the second only be read, the third
/// not be seen.
#[track_caller]
fn holds(sandbox: &Sandbox, policy: &str, writable: &[&str], readable: &[&str], hidden: &[&str]) {
    sandbox.stockade(&["explain", "--no-config"]).policy(policy).plain().ok();
    for path in writable {
        run(sandbox, policy).sh(&format!("cat {path} >/dev/null && echo changed > {path}")).ok();
    }
    for path in readable {
        run(sandbox, policy).sh(&format!("cat {path}")).ok();
        run(sandbox, policy).sh(&format!("echo changed > {path}")).fails().says("read-only file system");
        run(sandbox, policy).sh(&format!("rm -rf {path}; ! test -e {path}")).fails();
    }
    for path in hidden {
        run(sandbox, policy).sh(&format!("cat {path}")).fails().says_one_of(&["no such file", "permission denied"]);
        run(sandbox, policy).sh(&format!("echo changed > {path}")).fails();
    }
}

/// No other host than the run's own can be asked.
#[track_caller]
fn is_offline(sandbox: &Sandbox, policy: &str) {
    run(sandbox, policy).sh("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").ok().prints("lo");
    run(sandbox, policy).sh("tail -n +2 /proc/net/route | grep .").fails();
}

#[test]
fn srt_holds() {
    let (sandbox, policy) = project("srt", "srt.json", SRT);
    let readable = ["a/b.snap", "~/.config/tokens/public/x", "~/shared/locked/inner/x"];
    let hidden = ["private/x", "~/.config/tokens/x", "~/.netrc", "~/.tool/key"];
    holds(&sandbox, &policy, &["f", "docs/x", "~/.cache/tool/x"], &readable, &hidden);
    run(&sandbox, &policy).sh("echo x > .env").fails().says("read-only");
    for script in [
        "mkdir config && echo x > config/production.json",
        "mkdir s; echo x > s/.bashrc",
        "mkdir -p s/.vscode",
        "mkdir -p s/.claude/agents",
    ] {
        run(&sandbox, &policy).sh(script).fails().says("read-only file system");
    }
    run(&sandbox, &policy).env("TOOL_TOKEN", "t").env("OTHER", "o").sh("echo $TOOL_TOKEN$OTHER").ok().prints("o");
    run(&sandbox, &policy).sh("echo mine > /tmp/x && cat /tmp/x").ok().prints("mine");
    run(&sandbox, &policy).sh(&dated("git add f; git commit -qm x")).ok();
    is_offline(&sandbox, &policy);
}

#[test]
fn claude_holds() {
    let (sandbox, policy) = project("claude", ".claude/settings.json", CLAUDE);
    let readable = ["dist/x", "vendor/x", "a/generated/x", "a/b.snap", "~/locked/inner/x", "~/data/x"];
    holds(
        &sandbox,
        &policy,
        &["f", "~/notes/x", "~/.cache/build/x"],
        &readable,
        &["secrets/x", "~/.npmrc", "~/.tool/config"],
    );
    run(&sandbox, &policy).sh("echo \"$CI $GREETING\"").ok().prints("1 a \"quoted\" $HOME\nline");
    is_offline(&sandbox, &policy);
}

#[test]
fn codex_holds() {
    let (sandbox, policy) = project("codex", "config.toml", CODEX);
    holds(&sandbox, &policy, &["f", "docs/x", "~/.cache/tool/x"], &["~/data/x"], &[]);
    for script in ["git commit --allow-empty -qm x", "mkdir .codex", "mkdir .aws", "mkdir ~/.cache/tool/.git"] {
        run(&sandbox, &policy).sh(&dated(script)).fails();
    }
    run(&sandbox, &policy)
        .env("TOKEN", "t")
        .sh("echo $TOKEN$CI$LANG$HOME")
        .ok()
        .prints(&format!("1{}", sandbox.home.display()));
    is_offline(&sandbox, &policy);
}

#[test]
fn a_profile_of_codex_holds() {
    let (sandbox, policy) = project("codex", "config.toml", CODEX_PROFILE);
    let readable = ["docs/x", "~/other/docs/x", "~/data/raw/x", "~/.secrets/public/x"];
    holds(&sandbox, &policy, &["f", "~/data/x"], &readable, &["private/x", "~/.secrets/x"]);
    sandbox.stockade(&["explain", "--no-config"]).policy(&policy).plain().ok().shows("network:  the host's");
}

#[test]
fn a_read_only_project_is_read_only_in_a_linked_work_tree_too() {
    let sandbox = repository();
    crate::support::git::git(&sandbox, "git worktree add -q ../w side").ok();
    let file = sandbox.file_beside("config.toml", "sandbox_mode = \"read-only\"\n");
    let policy = import(&sandbox, "codex", &file, &[]).ok().out;
    for dir in [sandbox.project.clone(), sandbox.beside("w")] {
        for script in
            ["echo > f", "git commit --allow-empty -qm x", "git tag t", "echo > $(git rev-parse --git-dir)/HEAD"]
        {
            run(&sandbox, &policy).cwd(&dir).sh(&dated(script)).fails();
        }
        run(&sandbox, &policy).cwd(&dir).sh("git log -1 && git status && echo > /tmp/x").ok();
    }
}

#[test]
fn allowed_git_configuration_can_be_written_and_hooks_cannot() {
    let sandbox = repository();
    let settings = r#"{"network":{"allowedDomains":[]},"filesystem":{"allowWrite":["."],"allowGitConfig":true}}"#;
    let file = sandbox.file_beside("srt.json", settings);
    let policy = import(&sandbox, "srt", &file, &[]).ok().out;
    run(&sandbox, &policy).sh("git config a.b c && git config a.b").ok().prints("c");
    run(&sandbox, &policy).sh("echo > .git/hooks/pre-commit").fails();
}

#[test]
fn what_cannot_be_kept_fails_and_the_rest_is_made_when_told() {
    for (tool, name, settings, count, told) in [
        ("srt", "s.json", SRT_PARTIAL, "13 of the settings", "not kept: futureKey: {\"a\":1}: nothing is known"),
        ("claude", ".claude/settings.json", CLAUDE_PARTIAL, "16 of the settings", "\"Bash(curl:*)\""),
        ("codex", "config.toml", CODEX_PARTIAL, "3 of the settings", "network.domains"),
    ] {
        let sandbox = repository();
        let file = sandbox.file(name, settings);
        let outcome =
            import(&sandbox, tool, &file, &[]).refused().prints("").says(count).says("hint: ").says("--partial");
        outcome.says(told).says("the network is off");
        let policy = import(&sandbox, tool, &file, &["--partial"]).ok().says(told).out;
        sandbox.stockade(&["explain", "--no-config"]).policy(&policy).plain().ok().shows("network:  none");
        run(&sandbox, &policy).sh("true").ok();
    }
}

#[test]
fn a_file_is_replaced_only_when_told() {
    let sandbox = Sandbox::new();
    let file = sandbox.file("s.json", SRT);
    let out = sandbox.beside("policy.toml");
    let words = ["--output", out.to_str().unwrap()];
    import(&sandbox, "srt", &file, &words).ok().prints("");
    let printed = import(&sandbox, "srt", &file, &[]).ok().out;
    assert_eq!(fs::read_to_string(&out).unwrap(), printed);
    sandbox.run().option("--policy").option(&out).sh("true").ok();
    fs::write(&out, "mine").unwrap();
    import(&sandbox, "srt", &file, &words).refused().says("exists").says("--force");
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    // A link is replaced, and where it leads is left alone.
    let kept = sandbox.file_beside("kept", "kept");
    fs::remove_file(&out).unwrap();
    std::os::unix::fs::symlink(&kept, &out).unwrap();
    import(&sandbox, "srt", &file, &words).refused().says("exists");
    import(&sandbox, "srt", &file, &[&words[..], &["--force"]].concat()).ok();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(fs::read_to_string(&out).unwrap(), printed);
    import(&sandbox, "srt", &file, &["--force"]).status(125);
}

#[test]
fn bad_settings_say_what_is_wrong() {
    let sandbox = Sandbox::new();
    for (tool, text, told) in [
        ("srt", "{\n  \"a\": }", "line 2"),
        ("srt", "{\"filesystem\":{\"denyRead\":\"~\"}}", "filesystem.denyRead has to be a list"),
        ("codex", "sandbox_mode = \"red\"", "read-only"),
        ("codex", "\nx = = 1", "line 2"),
    ] {
        let file = sandbox.file("settings", text);
        import(&sandbox, tool, &file, &["--partial"]).refused().prints("").says(told);
    }
    import(&sandbox, "srt", Path::new("absent"), &[]).refused().says("cannot read the settings").says("no such file");
    // Its own state is never opened.
    let state = sandbox.state.to_str().unwrap();
    let text = format!("{{\"network\":{{\"allowedDomains\":[]}},\"filesystem\":{{\"allowWrite\":[{state:?}]}}}}");
    let file = sandbox.file("settings", &text);
    import(&sandbox, "srt", &file, &[]).refused().says("stockade's own state");
}

#[test]
fn names_do_not_become_anything_else() {
    // Not below /var/tmp, which is the session's.
    let sandbox = Sandbox::below(real_home());
    let names = ["a b", "q\"uote", "d$HOME", "n\nl", "{x,y}", "st*r", "[r]", "u\u{202e}é", "back\\slash", "~x", "#c"];
    for name in names {
        sandbox.file_beside(&format!("h/open/{name}/f"), "");
    }
    let list: Vec<_> =
        names.iter().map(|name| serde_json::json!({"path": format!("~/open/{name}"), "literal": true})).collect();
    let settings = serde_json::json!({"network": {"allowedDomains": []}, "filesystem": {"allowWrite": list}});
    let file = sandbox.file("s.json", &settings.to_string());
    let policy = import(&sandbox, "srt", &file, &[]).ok().out;
    for name in names {
        let path = sandbox.home.join("open").join(name).join("f");
        run(&sandbox, &policy).argv(["sh", "-c", "echo x > \"$0\"", path.to_str().unwrap()]).ok();
        assert_eq!(fs::read_to_string(path).unwrap(), "x\n");
    }
    run(&sandbox, &policy).sh("echo x > ~/open/f").fails();
    run(&sandbox, &policy).sh("mkdir ~/open/x").fails();
}

/// A session has directories of its own at `/tmp` and `/var/tmp`, but a project there is the host's.
#[test]
fn denials_hold_for_a_project_below_a_directory_of_the_sessions_own() {
    let sandbox = Sandbox::below("/var/tmp");
    sandbox.file("secret/key", "s3cret");
    sandbox.file("locked/file", "good");
    let p = sandbox.project.display();
    let settings = format!(
        r#"{{"network":{{"allowedDomains":[],"deniedDomains":[]}},"filesystem":{{"allowWrite":["."],"allowRead":[],
        "denyRead":["{p}/secret"],"denyWrite":["{p}/locked"]}}}}"#
    );
    let file = sandbox.file("settings.json", &settings);
    let policy = import(&sandbox, "srt", &file, &[]).ok().out;
    let done =
        run(&sandbox, &policy).sh("cat secret/key; echo evil > locked/new; echo evil > locked/file; echo > free");
    done.ok().lacks("s3cret");
    assert_eq!(fs::read_to_string(sandbox.project.join("locked/file")).unwrap(), "good");
    assert!(!sandbox.project.join("locked/new").exists() && sandbox.project.join("free").exists());
}
