//! The example policies of `docs/examples`: what each promises works, what it forbids is refused.

use std::fs;
use std::path::Path;

use crate::support::git::{dated, git, repository};
use crate::support::{Run, Sandbox, is_root, need, real_home};

const RUST: &str = include_str!("../../docs/examples/rust-cargo.toml");
const NODE: &str = include_str!("../../docs/examples/node-worktrees.toml");
const HARNESS: &str = include_str!("../../docs/examples/harness-jobs.toml");
const CI: &str = include_str!("../../docs/examples/ci-locked-down.toml");
const RESEARCH: &str = include_str!("../../docs/examples/research-nfs.toml");

/// Each of these scripts fails, alone, and with the words of who refuses it.
#[track_caller]
fn refused<'a>(run: impl Fn() -> Run<'a>, scripts: &[&str]) {
    for script in scripts {
        run().sh(script).fails().says_one_of(&["read-only file system", "permission denied", "no such file"]);
    }
}

/// The file is there and holds this; `None`: there is no such name.
#[track_caller]
fn holds(path: &Path, content: Option<&str>) {
    assert_eq!(fs::read_to_string(path).ok().as_deref(), content, "{}", path.display());
}

fn rust(sandbox: &Sandbox) -> Run<'_> {
    sandbox.run().policy(RUST)
}

#[test]
fn rust_downloads_stay_in_the_session() {
    let sandbox = repository();
    let registry = sandbox.home.join(".cargo/registry");
    sandbox.file_beside("h/.cargo/registry/index", "host");
    rust(&sandbox)
        .session("a")
        .sh("cat ~/.cargo/registry/index; echo new > ~/.cargo/registry/crate")
        .ok()
        .prints("host");
    rust(&sandbox).session("a").sh("cat ~/.cargo/registry/crate; echo > ~/.cargo/registry/index").ok().prints("new");
    rust(&sandbox).session("b").sh("ls ~/.cargo/registry; cat ~/.cargo/registry/index").ok().prints("index\nhost");
    holds(&registry.join("crate"), None);
    holds(&registry.join("index"), Some("host"));
}

#[test]
fn rust_follows_cargo_home() {
    let sandbox = repository();
    let home = sandbox.beside("cargo");
    fs::create_dir(&home).unwrap();
    rust(&sandbox).env("CARGO_HOME", &home).sh("echo x > $CARGO_HOME/.package-cache").ok();
    holds(&home.join(".package-cache"), None);
    rust(&sandbox).sh("echo x > ~/elsewhere").fails().says("read-only");
}

#[test]
fn rust_builds_and_names_no_programs_to_cargo_outside() {
    let sandbox = repository();
    sandbox.file_beside("h/.cargo/credentials.toml", "token");
    rust(&sandbox).sh("mkdir -p target/debug src && echo built > target/debug/x && echo > src/main.rs").ok();
    holds(&sandbox.project.join("target/debug/x"), Some("built\n"));
    refused(
        || rust(&sandbox),
        &[
            "mkdir .cargo",
            "mkdir -p x/.cargo && echo > x/.cargo/config.toml && mv x/.cargo .cargo",
            "echo > rust-toolchain",
            "echo > target/t && mv target/t rust-toolchain.toml",
            "cat ~/.cargo/credentials.toml",
            "echo > .git/hooks/pre-commit",
        ],
    );
    let run = rust(&sandbox).env("CARGO_REGISTRY_TOKEN", "t").env("CARGO_REGISTRIES_X_TOKEN", "t");
    run.sh("echo $CARGO_REGISTRY_TOKEN$CARGO_REGISTRIES_X_TOKEN; ulimit -n").ok().prints("\n4096");
}

#[test]
fn rust_with_cargo_itself() {
    if !need("cargo") || !need("cc") {
        return;
    }
    let sandbox = repository();
    sandbox.file("Cargo.toml", "[package]\nname = \"x\"\nedition = \"2021\"\n");
    sandbox.file("src/main.rs", "#[test]\nfn holds() {}\nfn main() { println!(\"it runs\") }\n");
    let rustup = std::env::var_os("RUSTUP_HOME").map_or_else(|| real_home().join(".rustup"), Into::into);
    let cargo = || {
        let run = rust(&sandbox).env("RUSTUP_HOME", &rustup).env("PATH", std::env::var_os("PATH").unwrap());
        run.env("RUSTUP_TOOLCHAIN", std::env::var_os("RUSTUP_TOOLCHAIN").unwrap_or_else(|| "stable".into()))
    };
    cargo().sh("cargo run --offline").ok().prints("it runs");
    cargo().sh("cargo test --offline").ok().shows("1 passed");
    assert!(sandbox.project.join("target/debug/x").exists());
    assert!(!sandbox.home.join(".cargo").exists());
}

/// A repository with two linked work trees beside it.
fn monorepo() -> Sandbox {
    let sandbox = repository();
    git(&sandbox, "git worktree add -q ../mono-a -b a; git worktree add -q ../mono-b -b b").ok();
    sandbox.file_beside("h/.npmrc", "//registry/:_authToken=t");
    sandbox.file_beside("h/.npm/_cacache/index", "host");
    sandbox
}

fn node<'a>(sandbox: &'a Sandbox, tree: &str) -> Run<'a> {
    sandbox.run().policy(NODE).cwd(sandbox.beside(tree)).session(tree)
}

#[test]
fn node_work_trees_commit_side_by_side() {
    let sandbox = monorepo();
    let commit =
        "mkdir -p packages/x/src node_modules/m && echo 1 > packages/x/src/i.js && echo 2 > node_modules/m/i.js
        git add packages && git commit -qm inside && git status --porcelain && echo $HUSKY$CI";
    node(&sandbox, "mono-a").sh(&dated(commit)).ok().prints("?? node_modules/\n01");
    node(&sandbox, "mono-b").sh(&dated(commit)).ok();
    git(&sandbox, "git log --format=%s -1 a; git log --format=%s -1 b; git fsck").ok().prints("inside\ninside");
}

#[test]
fn node_work_trees_are_out_of_each_others_way() {
    let sandbox = monorepo();
    refused(
        || node(&sandbox, "mono-a"),
        &[
            "echo > ../mono-b/x",
            "echo > ../p/x",
            "echo > $(git rev-parse --git-common-dir)/hooks/post-commit",
            "echo > $(git rev-parse --git-common-dir)/config",
            "git worktree add ../mono-c",
            "mkdir .husky && echo > .husky/pre-commit",
            "echo > .npmrc",
            "mkdir -p packages/y && echo > packages/y/i.js && echo > packages/y/.npmrc",
            "mkdir -p .github/workflows",
            "cat ~/.npmrc",
        ],
    );
    // What came before the refusal was done.
    assert!(sandbox.beside("mono-a/packages/y/i.js").exists());
}

#[test]
fn node_downloads_stay_in_the_session() {
    let sandbox = monorepo();
    node(&sandbox, "mono-a").sh("cat ~/.npm/_cacache/index; echo new > ~/.npm/_cacache/new").ok().prints("host");
    node(&sandbox, "mono-a").sh("cat ~/.npm/_cacache/new").ok().prints("new");
    node(&sandbox, "mono-b").sh("cat ~/.npm/_cacache/new").fails();
    holds(&sandbox.home.join(".npm/_cacache/new"), None);
    node(&sandbox, "mono-a").env("NPM_TOKEN", "t").sh("echo \"<$NPM_TOKEN>\"").ok().prints("<>");
}

#[test]
fn node_with_npm_itself() {
    if !need("npm") {
        return;
    }
    let sandbox = monorepo();
    sandbox.file_beside("mono-a/packages/lib/package.json", r#"{"name":"lib","version":"1.0.0","main":"i.js"}"#);
    sandbox.file_beside("mono-a/packages/lib/i.js", "module.exports = 'from lib'");
    let root = r#"{"name":"root","private":true,"workspaces":["packages/*"],
        "scripts":{"test":"node -p \"require('lib')\""}}"#;
    sandbox.file_beside("mono-a/package.json", root);
    let npm = || node(&sandbox, "mono-a").env("PATH", std::env::var_os("PATH").unwrap());
    npm().sh("npm install --offline --no-audit --no-fund && npm test").ok().shows("from lib");
}

/// Directories of two jobs.
fn jobs() -> Sandbox {
    let sandbox = Sandbox::below(real_home());
    for dir in ["17/in", "17/work", "17/out", "18/in", "18/work", "18/out"] {
        fs::create_dir_all(sandbox.beside("jobs").join(dir)).unwrap();
    }
    sandbox.file_beside("jobs/17/in/task.md", "task");
    sandbox.file_beside("jobs/18/in/task.md", "another");
    sandbox
}

fn harness<'a>(sandbox: &'a Sandbox, job: &str) -> Run<'a> {
    let jobs = sandbox.beside("jobs");
    let dir = jobs.join(job);
    let run = sandbox.run().policy(HARNESS).env("JOBS", &jobs).env("JOB_ID", job).env("JOB_DIR", &dir);
    run.env("API_KEY", "k").option("--chdir").option(dir.join("out"))
}

#[test]
fn harness_jobs_have_what_they_need() {
    let sandbox = jobs();
    let script =
        "cat ../in/task.md; echo; pwd; echo r > r; echo w > $JOB_DIR/work/w; echo t > /tmp/t; echo \"<$API_KEY>\"";
    let out = sandbox.beside("jobs/17/out");
    harness(&sandbox, "17").sh(script).ok().prints(&format!("task\n{}\n<>", out.display()));
    holds(&out.join("r"), Some("r\n"));
    harness(&sandbox, "17").sh("cat /tmp/t $JOB_DIR/work/w; ulimit -n").ok().prints("t\nw\n1024");
}

#[test]
fn harness_jobs_do_not_know_of_each_other() {
    let sandbox = jobs();
    harness(&sandbox, "17").sh("echo t > /tmp/t").ok();
    harness(&sandbox, "18").sh("ls ../..; ls /tmp; cat ../in/task.md").ok().prints("18\nanother");
    refused(
        || harness(&sandbox, "17"),
        &["cat ../../18/in/task.md", "echo > ../in/task.md", "echo > ../other", "echo > ../../19", "rm ../in/task.md"],
    );
    holds(&sandbox.beside("jobs/17/in/task.md"), Some("task"));
    assert!(!sandbox.beside("jobs/17/other").exists() && !sandbox.beside("jobs/19").exists());
}

#[test]
fn harness_jobs_need_their_variables() {
    let sandbox = jobs();
    sandbox.run().policy(HARNESS).sh("true").refused().says("JOB_DIR");
}

fn ci(sandbox: &Sandbox) -> Run<'_> {
    sandbox.run().policy(CI).env("CI_TOKEN", "t")
}

#[test]
fn ci_sees_the_checkout_and_the_system() {
    let sandbox = repository();
    sandbox.file_beside("h/notes", "private");
    ci(&sandbox)
        .sh("cat f; git log --format=%s -1; grep -c . /etc/passwd >/dev/null && echo $HOME$CI")
        .ok()
        .prints("two\ntwo\n/tmp1");
    ci(&sandbox).sh("echo x > /tmp/x && mkdir out && echo r > out/r && ulimit -n").ok().prints("1024");
    holds(&sandbox.project.join("out/r"), Some("r\n"));
    ci(&sandbox).sh("env | grep -c TOKEN").fails().prints("0");
}

#[test]
fn ci_sees_and_writes_nothing_else() {
    let sandbox = repository();
    let notes = sandbox.file_beside("h/notes", "private");
    let read = format!("cat {}", notes.display());
    refused(
        || ci(&sandbox),
        &[
            &read,
            "cat /etc/shadow",
            "cat /etc/fstab /etc/hostname",
            "ls /srv",
            "ls /sys/class",
            "echo > f",
            "rm f",
            "echo > new",
            "git commit --allow-empty -m x",
            "echo > .git/objects/x",
            "echo > .git/hooks/post-merge",
            "mkdir /new",
        ],
    );
    ci(&sandbox).sh("ls ..").ok().prints("p");
    git(&sandbox, "git status --porcelain").ok().prints("");
}

/// A home on a host with others, data sets and a scratch disk. Ordinary directories stand for NFS and the disk.
fn shared_host() -> Sandbox {
    let sandbox = Sandbox::below(real_home());
    for dir in ["homes/other", "homes/me/study", "homes/me/venv/lib", "scratch/results", "data"] {
        fs::create_dir_all(sandbox.beside(dir)).unwrap();
    }
    sandbox.file_beside("homes/other/readable", "of another");
    sandbox.file_beside("homes/me/letters", "private");
    sandbox.file_beside("data/set", "1 2 3");
    sandbox.file_beside("homes/me/.gitconfig", "[user]\n\tname = n\n\temail = e@example.org\n");
    sandbox
}

fn research(sandbox: &Sandbox) -> Run<'_> {
    let run = sandbox.run().policy(RESEARCH).session("study").cwd(sandbox.beside("homes/me/study"));
    let run = run.env("HOME", sandbox.beside("homes/me")).env("HOMES", sandbox.beside("homes"));
    let run = run.env("SCRATCH", sandbox.beside("scratch")).env("DATASETS", sandbox.beside("data"));
    run.env("STOCKADE_STATE", sandbox.beside("scratch/stockade")).env("HF_TOKEN", "t").env("SLURM_JOB_ID", "1")
}

#[test]
fn research_reads_data_and_writes_results() {
    let sandbox = shared_host();
    let script = "cat $DATASETS/set; echo; echo r > $SCRATCH/results/r; echo p > plot.py; echo m > ~/venv/lib/m
        git init -q . 2>/dev/null; mkdir -p $XDG_CACHE_HOME; echo c > $XDG_CACHE_HOME/c; echo \"<$HF_TOKEN$SLURM_JOB_ID>\"";
    research(&sandbox).sh(script).ok().prints("1 2 3\n<>");
    holds(&sandbox.beside("scratch/results/r"), Some("r\n"));
    holds(&sandbox.beside("homes/me/study/plot.py"), Some("p\n"));
    // The session goes on with what it installed, on the node's disk; the home directory does not change.
    research(&sandbox).sh("cat ~/venv/lib/m $XDG_CACHE_HOME/c").ok().prints("m\nc");
    holds(&sandbox.beside("homes/me/venv/lib/m"), None);
    assert!(!sandbox.state.exists() && sandbox.beside("scratch/stockade").exists());
}

#[test]
fn research_sees_no_homes_and_no_sessions() {
    let sandbox = shared_host();
    research(&sandbox).sh("ls -A ~ ~/..").ok().lacks("letters").lacks("other").shows("study").shows(".gitconfig");
    refused(
        || research(&sandbox),
        &[
            "cat ~/letters",
            "cat ~/../other/readable",
            "echo > $DATASETS/set",
            "echo > $DATASETS/new",
            "echo > ~/new",
            "echo > ~/.gitconfig",
            "echo > $SCRATCH/new",
            "ls $SCRATCH/stockade/*",
        ],
    );
}

/// Limits that are comments because root's processes are not counted hold for everybody else.
#[test]
fn commented_limits_can_be_had() {
    if is_root() {
        return;
    }
    for policy in [HARNESS, CI] {
        let sandbox = jobs();
        let with: String = policy.replace("# pids = 256", "pids = 256");
        assert_ne!(with, policy);
        let dir = sandbox.beside("jobs/17");
        let run = sandbox.run().policy(&with).env("JOB_ID", "17").env("JOB_DIR", dir);
        run.sh("for i in $(seq 300); do sleep 1 & done; wait").fails().says("fork");
    }
}
