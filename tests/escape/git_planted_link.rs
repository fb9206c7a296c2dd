//! A name that one run may write becomes a link, and the next run would write where it leads.

use std::fs;

use crate::support::git::repository;

#[test]
fn at_a_name_of_the_list() {
    for (name, target) in [("objects", ""), ("logs", ""), ("index", "/file"), ("lfs", ""), ("COMMIT_EDITMSG", "/file")]
    {
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
