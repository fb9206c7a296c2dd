//! A name that one run may write becomes a link, and the next run would write where it leads.

use std::fs;

use crate::support::git::repository;

#[test]
fn at_a_name_of_the_list() {
    for (name, target) in [("objects", ""), ("logs", ""), ("index", "/file"), ("lfs", ""), ("FETCH_HEAD", "/file")] {
        let sandbox = repository();
        let victim = sandbox.file_beside("victim/file", "old");
        let plant =
            format!("mv .git/{name} .git/refs/old; ln -s $PWD/../victim{target} .git/{name}; readlink .git/{name}");
        let planted = sandbox.sh(&plant).describe();
        let attack = format!("echo new > .git/{name}/file; echo new > .git/{name}; echo new > ../victim/file");
        let attacked = sandbox.sh(&attack).fails().describe();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "old", "{name}\n{planted}{attacked}");
    }
}

#[test]
fn at_the_place_of_a_rule() {
    let sandbox = repository();
    let victim = sandbox.file_beside("victim/file", "old");
    let place = sandbox.beside("place");
    let run = || sandbox.run().write(&place);
    run().sh("ln -s $PWD/../victim ../place").fails().says("no links here");
    run().sh("ln -s $PWD/../victim l; mv l ../place").fails();
    run().sh("mkdir ../place && mv ../place m && ln -s ../victim ../place").fails().says("no links here");
    assert!(!place.is_symlink());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
    // Of a directory that can be written it is not known who made it.
    let run = || sandbox.run().write(&place).write(place.parent().unwrap());
    run().sh("rm -rf place; ln -s $PWD/../victim ../place").ok();
    run().sh("echo new > ../place/file").refused().says("place");
}

/// git outside would write what the agent says where the agent says.
#[test]
fn for_git_outside_to_write_through() {
    let sandbox = repository();
    let victim = sandbox.file_beside("victim/file", "old");
    for name in [
        "MERGE_MSG",
        "COMMIT_EDITMSG",
        "packed-refs",
        "FETCH_HEAD",
        "ORIG_HEAD",
        "logs/HEAD",
        "index.stash.1",
        "rr-cache/x",
    ] {
        let deep = if name.contains('/') { "../../.." } else { "../.." };
        let script = format!(
            "name={name}; to={deep}/victim/file; mkdir -p .git/rr-cache; ln -sfn $to .git/$name; ln -sfn $to .git/refs/l
            ln -s $to link; mv -f .git/refs/l .git/$name; mv -fT link .git/$name; ln -fP link .git/$name
            python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"link\", -100, b\".git/{name}\", 2)'
            mkdir d; ln -s $to d/HEAD; mv .git/logs .git/refs/logs; mv -T d .git/logs; rm -rf link d .git/refs/l"
        );
        let attacked = sandbox.sh(&script);
        let links = sandbox.script("find .git -type l").ok();
        assert_eq!(links.out, "", "{name} {}", attacked.describe());
    }
    let next = "git cherry-pick side; git commit -q --allow-empty -m new; git pack-refs --all; git checkout -q side; git stash";
    let _ = sandbox.script(next);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
}
