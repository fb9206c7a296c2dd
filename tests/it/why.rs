//! `why` tells what a run may do with a path, who says so, and what would allow the rest. What it tells is what happens.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::{Outcome, PYTHON, Sandbox, is_root, need, real_home};

fn why(sandbox: &Sandbox, args: &[&str]) -> Outcome {
    sandbox.stockade(&["why", "--no-config"]).options(args).plain()
}

/// The words of the cure that was printed.
fn cure(outcome: &Outcome) -> String {
    let line = outcome.out.lines().find_map(|line| line.trim().strip_prefix("cure:"));
    line.unwrap_or_else(|| panic!("no cure\n{}", outcome.describe())).trim().to_owned()
}

/// What is printed as a cure, given to `run`, allows it; without it, it is refused.
#[track_caller]
fn is_cured(sandbox: &Sandbox, path: &str, act: &str, command: &str) {
    sandbox.sh(command).fails();
    let text = cure(&why(sandbox, &[path, act]).status(1));
    let options = text.strip_prefix("allow with ").unwrap_or_else(|| panic!("{text}"));
    // Through a shell, as a person would give it.
    let script = format!("$SK run --no-config {options} -- sh -c '{}'", command.replace('\'', r"'\''"));
    sandbox.script(&script).ok();
}

#[test]
fn says_yes_and_no() {
    let sandbox = Sandbox::new();
    sandbox.file("src/x", "");
    why(&sandbox, &["src/x", "--write"]).ok().shows("yes: src/x can be written").shows("free: ");
    why(&sandbox, &["new", "--create"]).ok().shows("broker: ").shows("it does not exist");
    why(&sandbox, &[".envrc", "--create"]).status(1).shows("no: .envrc cannot be created").shows("built-in: ");
    why(&sandbox, &["/usr/x", "--rename-to"]).status(1).shows("read-only mount");
    why(&sandbox, &["/tmp/x", "--write"]).ok().shows("private: /tmp is");
    why(&sandbox, &["--overlay", "src", "src/x", "--write"]).ok().shows("overlay of").shows("memory");
    why(&sandbox, &["--redirect", "src"]).ok().shows("can be read, written");
    why(&sandbox, &["/dev/null", "--write"]).ok();
    why(&sandbox, &["/proc/self/status", "--create"]).status(1).shows("none by an option");
}

#[test]
fn hidden_is_not_to_be_read() {
    let sandbox = Sandbox::new();
    sandbox.file("secret/x", "");
    why(&sandbox, &["--hide", "secret", "secret/x", "--read"]).status(1).shows("mask: ").shows("--hide secret");
    why(&sandbox, &["--hide", "secret", "secret"]).ok().shows("secret: cannot be seen");
}

#[test]
fn names_the_line_what_it_beats_and_what_it_replaced() {
    let sandbox = Sandbox::new();
    sandbox.file("data/x", "");
    let policy = format!(
        "[files]\nread = [\n  {{ path = \"{0}/data\", reason = \"kept\" }},\n  \"**/x\",\n]\n",
        sandbox.project.display()
    );
    let asked = sandbox.stockade(&["why", "--no-config", "data/y"]).policy(&policy).plain().ok();
    asked.shows("cannot be written").shows(".toml:3: kept)").shows("beats:    write").shows("which names less");
    let asked = sandbox.stockade(&["why", "--no-config", "data/x"]).policy(&policy).option("--write=data");
    let asked = asked.option("--write=./data/x").plain().ok().shows("instead of read").shows(".toml:3: kept");
    asked.shows("(--write ./data/x)").shows("beats:    read **/x").shows("but is a pattern");
    let json = sandbox.stockade(&["why", "--no-config", "--json", "data/y", "--write"]).policy(&policy).plain();
    let value: serde_json::Value = serde_json::from_str(&json.status(1).out).unwrap();
    assert_eq!(value["answer"], false);
    assert_eq!(value["rule"]["reason"], "kept");
    assert_eq!(value["enforced_by"], "read-only");
    assert_eq!(value["may"]["read"], true);
    assert!(value["cure"].as_str().unwrap().contains("--write"), "{value}");
}

#[test]
fn rules_need_an_equals_sign_where_they_could_be_questions() {
    let sandbox = Sandbox::new();
    sandbox.file("dist/x", "");
    why(&sandbox, &["--write", "dist"]).ok().shows("yes: dist can be written");
    why(&sandbox, &["--read=dist", "--write", "dist/x"]).status(1).shows("--read dist").shows("leave out --read dist");
    why(&sandbox, &["--write", "dist", "dist/x"]).refused();
    why(&sandbox, &["--write", "--read", "dist"]).refused().says("hint: ");
    why(&sandbox, &[]).status(125);
    why(&sandbox, &[""]).refused();
    why(&sandbox, &["x", "--policy", "absent.toml"]).refused();
}

#[test]
fn follows_links_and_says_where_they_lead() {
    let sandbox = Sandbox::below(real_home());
    let outside = sandbox.file_beside("outside/x", "");
    symlink(outside.parent().unwrap(), sandbox.project.join("link")).unwrap();
    symlink("nowhere", sandbox.project.join("dangling")).unwrap();
    symlink(".envrc", sandbox.project.join("way")).unwrap();
    let real = outside.display().to_string();
    why(&sandbox, &["link/x", "--write"]).status(1).shows("link: ").shows(&real);
    why(&sandbox, &["link", "--rename-to"]).ok().lacks(&format!("is:       {real}"));
    why(&sandbox, &["dangling", "--create"]).ok().shows("nowhere");
    why(&sandbox, &["way", "--create"]).status(1).shows(".envrc");
    why(&sandbox, &["sub/../../outside/x", "--write"]).refused().says("sub").says("does not exist");
    sandbox.file("sub/y", "");
    why(&sandbox, &["sub/../../outside/x", "--write"]).status(1).shows(&real);
    // Inside there is no such link: /tmp is another directory.
    let (temporary, name) = (tempfile::tempdir_in("/tmp").unwrap(), "l");
    symlink("/usr", temporary.path().join(name)).unwrap();
    let path = temporary.path().join(name).join("x");
    why(&sandbox, &[path.to_str().unwrap(), "--write"]).ok().shows("private: ").lacks("/usr");
}

#[test]
fn the_cure_works() {
    if !need("git") {
        return;
    }
    let sandbox = Sandbox::below(real_home());
    let _ = sandbox.outside(&["git", "init", "-q"]).ok();
    let (odd, plain) = (sandbox.beside("o'd *$d"), sandbox.file_beside("other/x", "").display().to_string());
    fs::create_dir(&odd).unwrap();
    is_cured(&sandbox, &plain, "--write", &format!("echo y > {plain}"));
    is_cured(&sandbox, "../new/deep/x", "--create", "mkdir -p ../new/deep && touch ../new/deep/x");
    is_cured(&sandbox, ".git/config", "--write", "git config a.b c");
    is_cured(&sandbox, ".envrc", "--create", "echo y > .envrc");
    is_cured(&sandbox, "../o'd *$d/f", "--create", "touch \"../o'd *\\$d/f\"");
    is_cured(&sandbox, ".vscode", "--rename-to", "touch a && mv a .vscode");
}

#[test]
fn where_no_option_helps_it_says_so() {
    let sandbox = Sandbox::below(real_home());
    let state = sandbox.state.display().to_string();
    assert!(cure(&why(&sandbox, &[&state, "--read"]).status(1)).contains("stockade's own state"));
    assert!(cure(&why(&sandbox, &[".claude", "--rename-to"]).status(1)).starts_with("none by an option"));
    if !is_root() {
        assert!(cure(&why(&sandbox, &["/etc/passwd", "--write"]).status(1)).contains("the host does not permit it"));
    }
}

#[test]
fn inside_of_a_sandbox_it_does_not_guess() {
    let sandbox = Sandbox::new();
    let binary = sandbox.binary();
    let asked = sandbox.run().session("s1").argv([&binary, "why", "src/x", "--write"]);
    asked.refused().says("is a sandbox").says("stockade why --session s1 --running");
}

/// Tries everything, and puts back what it changed.
const TRY: &str = r#"
import errno, os, sys
def attempt(act, path):
    there = os.path.lexists(path)
    if act == "read":
        os.listdir(path) if os.path.isdir(path) else os.close(os.open(path, os.O_RDONLY))
    elif act == "write" and os.path.isdir(path):
        os.close(os.open(path + "/.new", os.O_CREAT | os.O_EXCL | os.O_WRONLY)); os.unlink(path + "/.new")
    elif act == "rename-to":
        def make(source):
            os.mkdir(source) if os.path.isdir(path) else os.close(os.open(source, os.O_CREAT | os.O_WRONLY))
            return source
        try:
            source = make(os.path.join(os.path.dirname(path), ".source"))
        except OSError:
            # The place of the old name is not what is asked about.
            source = make(".source")
        try:
            os.rename(source, path)
        except OSError:
            os.rmdir(source) if os.path.isdir(source) else os.unlink(source)
            raise
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        if not there: os.unlink(path)
for path in sys.argv[1:]:
    for act in ["read", "write", "create", "rename-to"]:
        if act == "create" and os.path.lexists(path): continue
        if act == "read" and not os.path.lexists(path): continue
        try:
            attempt(act, path)
            print(act, path, "yes")
        except OSError as error:
            # That a directory holds something is no rule's doing.
            print(act, path, "yes" if error.errno == errno.ENOTEMPTY else "no", error.strerror)
"#;

#[test]
fn what_is_told_is_what_happens() {
    if !need("python3") {
        return;
    }
    let sandbox = Sandbox::new();
    for name in ["src/a", "src/deep/x", "ro/a", "ro/in/b", "secret/s", "over/o", "priv/p", "file", "k/.claude/hooks/h"]
    {
        sandbox.file(name, "");
    }
    let names = "src src/a src/new src/deep ro ro/a ro/new ro/in ro/in/b ro/in/new secret secret/s secret/new over over/o \
        over/new priv priv/new file file/below new .envrc .claude .claude/hooks k k/x.lock k/.claude/hooks a.lock src/a.lock /tmp/new \
        /etc/passwd /etc/new /dev/null /dev/new /dev/shm/new /proc/self/comm";
    let names: Vec<&str> = names.split_whitespace().collect();
    let policies: [&[&str]; 4] = [
        &["--read=ro", "--write=ro/in", "--hide=secret", "--overlay=over", "--private=priv", "--read=**/*.lock"],
        &["--redirect", "--read=ro", "--hide=secret"],
        &["--write=file", "--write=src", "--private=secret", "--read=src/deep", "--read=k/*"],
        // A file that is written by rule in an overlay, on a mount of its own.
        &["--overlay=over", "--write=over/o", "--read=**/o"],
    ];
    for policy in policies {
        let run = sandbox.run().options(policy).argv([PYTHON, "-c", TRY].iter().chain(&names)).ok();
        for line in run.out.lines() {
            let mut words = line.splitn(3, ' ');
            let (act, path) = (words.next().unwrap(), words.next().unwrap());
            let happens = words.next().unwrap();
            let told = why(&sandbox, &[policy, &[path, &format!("--{act}")]].concat());
            // What is renamed here lies in the project, where a link can be made.
            let depends = act == "rename-to" && told.out.contains("only what lies where no link can be made");
            let code = i32::from(!(happens.starts_with("yes") || depends));
            assert_eq!(told.code, code, "{policy:?}: {act} {path}: {happens}\n{}", told.describe());
        }
        assert!(run.out.lines().count() > 60 && Path::new(&sandbox.project).exists());
    }
}
