//! git's everyday commands come to the same inside as outside, with `.git` guarded.

use std::path::Path;

use crate::support::git::{dated, git, repository};
use crate::support::{Outcome, Sandbox, need};

/// Everything that a command can have changed. Names of commits are the same everywhere. A rebase leaves `AUTO_MERGE`
/// behind where it does not work by `git am`.
const STATE: &str =
    "git for-each-ref; git symbolic-ref -q HEAD || git rev-parse HEAD; git ls-files -s; git status --porcelain
    git fsck --no-dangling; find .git -name '*.lock'; ls .git | grep -v AUTO_MERGE";

/// The script succeeds, and the repository is then the same, wherever it was done.
fn same(script: &str) -> Sandbox {
    let (outside, inside) = (repository(), repository());
    git(&outside, script).ok();
    let done = inside.sh(&dated(script)).ok();
    let (expected, found) = (git(&outside, STATE).ok(), git(&inside, STATE).ok());
    assert_eq!(expected.out, found.out, "{}", done.describe());
    assert!(!found.out.contains(".lock"), "{}", found.describe());
    inside
}

/// The script fails with this denial, and git is then as it was.
fn denied(script: &str, denial: &str) -> Outcome {
    let sandbox = repository();
    let before = git(&sandbox, STATE).ok().out;
    let outcome = sandbox.sh(&dated(script)).fails().says(denial).says("denied by policy").says("--git open");
    git(&sandbox, STATE).ok().prints(before.trim_end());
    outcome
}

#[test]
fn add_commit_amend() {
    same("echo x > x; git add x; git commit -qm x; git commit -q --amend -m y; echo z >> f; git commit -qam z; git rm -q x
        git mv f g; git commit -qm moved; echo part > p; git add -N p; printf 'y\n' | git add -p; git commit -qm p p
        git commit -q --allow-empty -F - <<END\nfrom a file\nEND\n");
}

#[test]
fn branch_switch_checkout() {
    same("git branch b; git branch -d b; git branch -D clash; git switch -qc new; git checkout -q side; git checkout -q --detach
        git switch -q main; git checkout -q HEAD~1 -- f; git restore --staged f; git restore f; git checkout -q --orphan o
        git commit -qm orphan; git switch -q main");
}

#[test]
fn merge() {
    same(
        "git merge -q --no-edit side; git switch -qc ahead; git commit -q --allow-empty -m ahead; git switch -q main
        git merge -q ahead; ! git merge -q clash; git merge --abort; ! git merge -q clash; echo both > f; git add f
        git merge --continue; git merge -q --squash side; git tag -a v1 -m v1",
    );
}

#[test]
fn rebase() {
    same("git switch -q side; git rebase -q main; git rebase -q main");
    same(
        "git switch -q clash; ! git rebase -q main; git rebase --abort; ! git rebase main; echo both > f; git add f
        git rebase --continue; git switch -q -c again side; git rebase -q --onto clash main~1",
    );
    same(
        "git switch -q clash; ! git rebase main; git rebase --skip; git switch -q side; echo dirt >> f
        git rebase -q --autostash main~1; git checkout f",
    );
}

#[test]
fn an_interactive_rebase_needs_an_open_git() {
    let script = "GIT_SEQUENCE_EDITOR=true git rebase -i HEAD~1";
    denied(
        script,
        "create ./.git/rebase-merge (read-only, built-in: git outside the sandbox would run its `exec` lines",
    );
    let sandbox = repository();
    sandbox.run().options(["--git", "open"]).sh("GIT_SEQUENCE_EDITOR=true git rebase -i --exec true HEAD~1").ok();
}

#[test]
fn cherry_pick_and_revert() {
    same("git cherry-pick side; ! git cherry-pick clash; git cherry-pick --abort; ! git cherry-pick clash; echo x > f; git add f
        git cherry-pick --continue; git revert --no-edit HEAD; git cherry-pick -x side~1 || git cherry-pick --skip");
    same("git switch -q side; echo t > t; git add t; git commit -qm t; git switch -q main; git cherry-pick side~1 side
        git revert HEAD~1 HEAD < /dev/null; ! git cherry-pick clash side; echo x > f; git add f; git cherry-pick --continue");
    same(
        "! git cherry-pick clash side; git cherry-pick --abort; ! git cherry-pick clash side; git cherry-pick --quit; git reset -q --hard",
    );
}

#[test]
fn stash() {
    same("echo d >> f; echo u > u; git stash push -qu; git stash pop -q; git stash push -q -m kept; echo e >> f; git stash -q
        git stash drop -q; git stash apply -q; git reset -q --hard; git stash branch b");
}

#[test]
fn reset_tag_notes_replace() {
    same("git reset -q --hard HEAD~1; git reset -q --soft clash; git commit -qm soft; git tag t; git tag -a a -m a; git tag -d t
        git notes add -m note; git notes append -m more; git replace HEAD~1 side; git replace -d $(git replace); git clean -fdq");
}

#[test]
fn housekeeping() {
    same(
        "git gc -q; git repack -adq; git prune; git fsck; git reflog expire --expire=now --all; git gc -q --prune=now
        git pack-refs --all; git commit-graph write; git multi-pack-index write; git maintenance run --quiet
        git update-server-info; git rerere; git bundle create -q b HEAD; rm b; git verify-pack .git/objects/pack/*.idx",
    );
}

#[test]
fn index_variants() {
    same(
        "git update-index --no-fsmonitor; git update-index --split-index; echo x > x; git add x; git commit -qm x
        git update-index --no-split-index; git update-index --refresh; rm -f .git/sharedindex.*",
    );
}

#[test]
fn bisect() {
    same(
        "git bisect start; git bisect bad; git bisect good HEAD~1; git bisect log; git bisect reset
        for n in 1 2 3 4 5; do echo $n > n; git add n; git commit -qm $n; done
        git bisect start HEAD HEAD~5; git bisect run sh -c 'test $(cat n) -lt 3'; git bisect reset",
    );
}

#[test]
fn patches() {
    same(
        "git format-patch -q -o o HEAD~1; git reset -q --hard HEAD~1; git am -q o/*; git format-patch -q -o c side~1..clash
        ! git am -q -3 c/*; git am --abort; ! git am -q -3 c/*; git am --skip; rm -r o c",
    );
}

#[test]
fn remotes_at_local_paths() {
    for inside in [false, true] {
        let sandbox = repository();
        git(&sandbox, "git clone -q --bare . ../remote; git remote add origin ../remote; git fetch -q; git branch -qu origin/main").ok();
        let script = dated("git commit -q --allow-empty -m mine; git push -q; git push -q origin HEAD:new; git push -q --tags
            git clone -q ../remote other; cd other; git commit -q --allow-empty -m theirs; git push -q; cd ..; rm -rf other
            git fetch -q --prune; git pull -q; git commit -q --allow-empty -m ahead; git pull -q --rebase
            git switch -q new; git fetch -q origin main");
        let remote = sandbox.beside("remote");
        if inside {
            sandbox.run().write(remote).sh(&script).ok()
        } else {
            sandbox.script(&script).ok()
        };
        let log =
            "git status --porcelain; git log --format=%s origin/main; git symbolic-ref HEAD; find .git -name '*.lock'";
        git(&sandbox, log).ok().prints("theirs\nmine\ntwo\none\nrefs/heads/new");
    }
}

#[test]
fn clone_into_the_tree() {
    let sandbox = repository();
    sandbox
        .sh(&dated(
            "git clone -q . sub; cd sub; git config x.y z; git commit -q --allow-empty -m sub; git init -q ../sub2",
        ))
        .ok();
    git(&sandbox, "git -C sub log -1 --format=%s").ok().prints("sub");
}

#[test]
fn submodules() {
    let sandbox = repository();
    git(&sandbox, "git clone -q . ../other; git submodule --quiet add ../other sub; git commit -qm sub").ok();
    let script = "git -C sub commit -q --allow-empty -m in-sub; git add sub; git commit -qm bump; git submodule status
        git -C sub checkout -q HEAD~1; git -C sub switch -q main; git submodule foreach git status; git -C sub gc -q";
    sandbox.sh(&dated(script)).ok();
    git(&sandbox, "git -C sub log -1 --format=%s; git status --porcelain; find .git -name '*.lock'")
        .ok()
        .prints("in-sub");
    // Both write configuration: git notes in the repository of the submodule where its work tree is, each time.
    sandbox.sh("git submodule add ../other more").fails().says("denied by policy");
    sandbox.sh("git submodule update").fails().says("./.git/modules/sub/config.lock").says("--git open");
    git(&sandbox, "git status --porcelain; git submodule update; find .git -name '*.lock'").ok().prints("");
}

#[test]
fn large_files() {
    if !need("git-lfs") {
        return;
    }
    let sandbox = repository();
    git(&sandbox, "git lfs install --local; git lfs track '*.bin'; git add .gitattributes; git commit -qm lfs").ok();
    sandbox
        .sh(&dated("echo big > x.bin; git add x.bin; git commit -qm big; rm x.bin; git checkout x.bin; cat x.bin"))
        .ok()
        .shows("big");
    git(&sandbox, "git lfs ls-files -n; git status --porcelain").ok().prints("x.bin");
}

#[test]
fn what_writes_the_configuration_is_denied() {
    let config = "create ./.git/config.lock (read-only, built-in: git outside the sandbox runs programs that it names";
    for script in [
        "git config x.y z",
        "git remote add origin ../x",
        "git branch --set-upstream-to side",
        "git init -q",
        "git sparse-checkout set d",
    ] {
        denied(script, config);
    }
    denied("echo x > .git/hooks/pre-commit", "create ./.git/hooks/pre-commit");
    // git makes the branch first and says that it could not note what the branch follows.
    repository().sh("git branch --track t side; git rev-parse t").ok().says("could not lock config file");
}

#[test]
fn push_with_upstream_pushes() {
    let sandbox = repository();
    git(&sandbox, "git clone -q --bare . ../remote; git remote add origin ../remote").ok();
    sandbox
        .run()
        .write(sandbox.beside("remote"))
        .sh("git push -qu origin main:new")
        .ok()
        .says("could not lock config file");
    git(&sandbox, "git ls-remote --heads origin new | wc -l; git config x.y z; find .git -name '*.lock'")
        .ok()
        .prints("1");
}

#[test]
fn adding_a_work_tree_is_denied_until_it_is_allowed() {
    let sandbox = repository();
    sandbox.sh("git worktree add w side").fails().says("--write .git/worktrees");
    assert!(!sandbox.project.join("w").exists());
    let script = dated(
        "git worktree add -q w side; cd w; git commit -q --allow-empty -m w; cd ..; git worktree list; git worktree remove w",
    );
    git(&sandbox, "mkdir .git/worktrees").ok();
    sandbox.run().write(".git/worktrees").sh(&script).ok();
    git(&sandbox, "git log -1 --format=%s side; git worktree list | wc -l").ok().prints("w\n1");
}

/// What is done in a linked work tree at `dir`.
fn in_linked(dir: &str) {
    let (outside, inside) = (repository(), repository());
    let script = dated("echo x > x; git add x; git commit -qm x; git rebase -q main; ! git merge -q clash; git merge --abort
        git switch -qc new; echo d >> f; git stash -q; git stash pop -q; git reset -q --hard; git tag -a t -m t; git cherry-pick side~1 || git cherry-pick --skip
        git gc -q; git worktree prune; git branch -D side; ! git rebase clash; git rebase --abort; git bisect start; git bisect reset");
    for sandbox in [&outside, &inside] {
        git(sandbox, &format!("echo in > .git/info/exclude; git worktree add -q {dir} side")).ok();
    }
    git(&outside, &format!("cd {dir}; {script}")).ok();
    let done = inside.run().cwd(inside.project.join(dir)).sh(&script).ok();
    let state = format!("{STATE}; cd {dir}; git ls-files -s; git status --porcelain; git symbolic-ref HEAD");
    let (expected, found) = (git(&outside, &state).ok(), git(&inside, &state).ok());
    assert_eq!(expected.out, found.out, "{}", done.describe());
}

#[test]
fn a_linked_work_tree() {
    in_linked("../w");
    in_linked("in");
}

#[test]
fn a_closed_git_can_be_read_and_not_written() {
    let sandbox = repository();
    git(&sandbox, "git worktree add -q ../w side").ok();
    let before = git(&sandbox, STATE).ok().out;
    for dir in [sandbox.project.clone(), sandbox.beside("w")] {
        let run = || sandbox.run().options(["--git", "closed"]).cwd(&dir);
        run().sh(&dated("git status; git log -1; git diff main side; echo x > x; rm x")).ok();
        for script in ["git commit --allow-empty -qm x", "git tag t", "git add x", "git stash -u"] {
            run().sh(&dated(&format!("touch x; {script}"))).fails().says("denied by policy");
        }
        git(&sandbox, &format!("rm -f {}/x", dir.display())).ok();
    }
    git(&sandbox, STATE).ok().prints(before.trim_end());
}

#[test]
fn linked_work_trees_are_served_from_the_main_one() {
    let sandbox = repository();
    git(&sandbox, "git worktree add -q in side").ok();
    sandbox.sh(&dated("cd in; echo x > x; git add x; git commit -qm x; git status; git worktree list")).ok();
    git(&sandbox, "git log -1 --format=%s side; git -C in status --porcelain").ok().prints("x");
}

#[test]
fn the_callers_own_settings_by_environment_stay() {
    let sandbox = repository();
    let run = || sandbox.run().env("GIT_CONFIG_KEY_0", "x.y").env("GIT_CONFIG_VALUE_0", "z");
    run().env("GIT_CONFIG_COUNT", "1").sh("git config x.y; git config rebase.backend").ok().prints("z\napply");
    run()
        .option("--git")
        .option("open")
        .env("GIT_CONFIG_COUNT", "1")
        .sh("git config x.y; git config rebase.backend")
        .fails()
        .prints("z");
}

#[test]
fn thousands_of_objects_are_added_in_free_directories() {
    let sandbox = repository();
    sandbox.script("mkdir d; for n in $(seq 300); do echo $n > d/$n; done").ok();
    sandbox.run().options(["--report", "../report"]).sh("git add -A; git commit -qm many").ok();
    assert_eq!(std::fs::read_to_string(sandbox.beside("report")).unwrap(), "");
    assert!(Path::new(&sandbox.project).join(".git/index").exists());
}
