//! Where `.git` is no repository, git asks whether the directory itself is a bare one: `HEAD`, `objects`, `refs` and a
//! `config`, all of them ordinary names in a work tree.

use crate::support::git::{git, runs_nothing};
use crate::support::{Sandbox, need};

#[test]
fn made_of_the_work_tree() {
    let attack = "rm -f .git/HEAD; mkdir objects refs; echo 'ref: refs/heads/x' > HEAD || ln -s refs/heads/x HEAD
        echo 'ref: refs/heads/x' > refs/h; test -e HEAD || mv refs/h HEAD
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tworktree = .\\n\\tfsmonitor = CANARY\\n' > config";
    runs_nothing("", attack, ".");
}

/// There is no `.git` in which anything could be protected.
#[test]
fn that_was_there_before() {
    if !need("userns") {
        return;
    }
    let sandbox = Sandbox::new();
    git(&sandbox, "git init -q --bare .").ok();
    for run in
        [sandbox.run(), sandbox.run().options(["--git", "closed"]), sandbox.run().cwd(sandbox.project.join("hooks"))]
    {
        let refused = run.sh("echo evil >> config; echo evil > hooks/post-update").status(125);
        refused.says("is a bare repository").says("--git open");
    }
    let config = std::fs::read_to_string(sandbox.project.join("config")).unwrap();
    assert!(!config.contains("evil") && !sandbox.project.join("hooks/post-update").exists());
    // What cannot be written needs no protection, and what is allowed is.
    sandbox.run().read(&sandbox.project).sh("echo evil >> config").says("Read-only file system");
    sandbox.run().options(["--git", "open"]).sh("echo '# x' >> config").ok();
}
