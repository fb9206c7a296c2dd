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

#[test]
fn at_the_place_of_a_rule() {
    let sandbox = repository();
    let victim = sandbox.file_beside("victim/file", "old");
    let place = sandbox.beside("place");
    fs::create_dir(&place).unwrap();
    let run = || sandbox.run().write(&place);
    run().sh("rmdir ../place; ln -s $PWD/../victim ../place").ok();
    run().sh("echo new > ../place/file").refused().says("place");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "old");
}
