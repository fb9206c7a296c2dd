//! `init` writes a configuration that says nothing until a line of it is uncommented, and never over another.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Outcome, Sandbox, is_root};

fn init(sandbox: &Sandbox, args: &[&str]) -> Outcome {
    sandbox.stockade(&["init"]).options(args).plain()
}

#[test]
fn writes_what_it_prints_and_nothing_over_it() {
    let sandbox = Sandbox::new();
    let path = sandbox.home.join(".config/stockade/config.toml");
    let printed = init(&sandbox, &["--stdout"]).ok().out;
    assert!(!path.exists());
    init(&sandbox, &[]).ok().prints(path.to_str().unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), printed);
    sandbox.stockade(&["run", "--", "true"]).plain().ok();
    fs::write(&path, "strict = false\n").unwrap();
    init(&sandbox, &[]).refused().says("exists").says("hint: ").says("--stdout");
    assert_eq!(fs::read_to_string(&path).unwrap(), "strict = false\n");
}

#[test]
fn goes_where_the_configuration_is_read_from() {
    let sandbox = Sandbox::new();
    let base = sandbox.beside("c");
    let init = |args: &[&str]| sandbox.stockade(args).env("XDG_CONFIG_HOME", &base).plain();
    init(&["init"]).ok();
    assert!(base.join("stockade/config.toml").is_file());
    let uncommented = "[network]\nmode = \"host\"\n";
    fs::write(base.join("stockade/config.toml"), uncommented).unwrap();
    init(&["explain"]).ok().shows("network:  the host's");
}

#[test]
fn follows_no_link_and_says_what_is_in_the_way() {
    let sandbox = Sandbox::new();
    let directory = sandbox.home.join(".config/stockade");
    fs::create_dir_all(&directory).unwrap();
    symlink(sandbox.project.join("x"), directory.join("config.toml")).unwrap();
    init(&sandbox, &[]).refused().says("exists");
    assert!(!sandbox.project.join("x").exists());
    fs::remove_dir_all(&directory).unwrap();
    fs::write(&directory, "").unwrap();
    init(&sandbox, &[]).refused().says("cannot write").says("config.toml");
}

#[test]
fn every_line_of_it_can_be_uncommented() {
    let sandbox = Sandbox::new();
    let template = init(&sandbox, &["--stdout"]).ok().out;
    let settings = template.lines().filter_map(|line| line.strip_prefix('#'));
    let settings = settings.filter(|setting| !setting.is_empty() && !setting.starts_with(' '));
    // The kernel does not limit the processes of the host's root.
    let all: Vec<&str> = settings.filter(|setting| !(is_root() && setting.starts_with("pids"))).collect();
    let directory = sandbox.home.join(".config/stockade");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("config.toml"), all.join("\n")).unwrap();
    let run = sandbox.stockade(&["run"]);
    run.env("AWS_KEY", "k").sh("echo $CI$AWS_KEY").ok().prints("1");
}
