//! Overlays that the session's next runs see.

use std::fs;
use std::path::PathBuf;
use std::thread;

use crate::support::{Outcome, Sandbox, eventually, real_home, size};

struct Shared {
    sandbox: Sandbox,
    lower: PathBuf,
    policy: String,
}

impl Shared {
    fn new() -> Self {
        let sandbox = Sandbox::below(real_home());
        let lower = sandbox.file_beside("lower/base", "base").parent().unwrap().to_owned();
        let policy = format!("[files]\noverlay = [{{ path = {lower:?}, scope = \"session\" }}]\n");
        Self { sandbox, lower, policy }
    }

    fn run(&self, session: &str, script: &str) -> Outcome {
        let script = format!("set -e; cd {}; {script}", self.lower.display());
        self.sandbox.run().session(session).policy(&self.policy).sh(&script)
    }

    fn layers(&self, session: &str) -> usize {
        let path = PathBuf::from(self.sandbox.stockade(&["session", "path", session]).plain().ok().out.trim());
        let stacks = fs::read_dir(path.join("overlay")).unwrap().map(|entry| entry.unwrap().path());
        let numbers = stacks.flat_map(|stack| fs::read_dir(stack).unwrap());
        let is_layer = |path: PathBuf| path.join("tree").exists() && !path.join("merged").exists();
        numbers.filter(|entry| is_layer(entry.as_ref().unwrap().path())).count()
    }
}

#[test]
fn the_next_run_sees_what_the_last_one_wrote_and_nobody_else_does() {
    let shared = Shared::new();
    shared.run("s", "echo 1 > f; rm base; mkdir -p d/e; echo x > d/e/x").ok();
    shared.run("s", "cat f; ls; cat d/e/x; echo 2 > f; rm -r d; mkdir d; echo y > d/y").ok().prints("1\nd\nf\nx");
    shared.run("s", "cat f; ls d").ok().prints("2\ny");
    shared.run("other", "ls").ok().prints("base");
    assert_eq!(fs::read_dir(&shared.lower).unwrap().count(), 1);
}

#[test]
fn many_runs_at_once_lose_nothing_and_layers_stay_few() {
    let shared = Shared::new();
    let total = size(40, 200);
    for first in (0..total).step_by(8) {
        thread::scope(|scope| {
            for number in first..first + 8 {
                let shared = &shared;
                scope.spawn(move || {
                    let script =
                        format!("echo {number} > f{number}; mkdir -p d{0}; echo x > d{0}/{number}", number % 3);
                    shared.run("s", &script).ok();
                });
            }
        });
        assert!(shared.layers("s") <= 16);
    }
    shared.run("s", "ls | grep -c ^f; ls d0 d1 d2 | grep -c '^[0-9]'").ok().prints(&format!("{total}\n{total}"));
    shared.run("s", "rm -r d0; mkdir d0; rm f0; mv f1 g1").ok();
    for _ in 0..14 {
        shared.run("s", "echo x >> more").ok();
    }
    let expected = format!("{}\n14\n1", total - 2);
    shared.run("s", "ls -A d0; ls | grep -c ^f; wc -l < more; cat g1; test -e base").ok().prints(&expected);
    shared.sandbox.stockade(&["session", "end", "s"]).plain().ok();
    assert_eq!(shared.sandbox.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn a_run_that_reads_is_not_disturbed_by_merging() {
    let shared = Shared::new();
    shared.run("s", "for n in 1 2 3 4 5 6 7 8 9; do echo $n > r$n; done").ok();
    thread::scope(|scope| {
        let started = shared.sandbox.project.join("started");
        let reader = scope.spawn(|| {
            shared.run(
                "s",
                "touch ../p/started; i=0; while [ $i -lt 60 ]; do cat r1 r9 > /dev/null; ls > /dev/null; i=$((i+1)); sleep 0.05; done",
            )
        });
        eventually("the reader reads", || started.exists().then_some(()));
        for number in 0..30 {
            shared.run("s", &format!("echo {number} > r1; rm -f r9; echo y > x{number}")).ok();
        }
        reader.join().unwrap().ok();
    });
    shared.run("s", "cat r1; test ! -e r9").ok().prints("29");
}

#[test]
fn ps_tells_the_bytes_that_layers_hold() {
    let shared = Shared::new();
    shared.run("s", "head -c 300000 /dev/urandom > f").ok();
    let told = shared.sandbox.stockade(&["ps", "--json"]).plain().ok().out;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let bytes = told[0]["overlay_bytes"].as_u64();
    assert!(bytes.is_some_and(|bytes| (300_000..400_000).contains(&bytes)), "{told}");
}

#[test]
fn ps_tells_the_bytes_that_are_in_memory() {
    let sandbox = Sandbox::new();
    let cache = sandbox.beside("cache");
    fs::create_dir(&cache).unwrap();
    // A directory that is called as the layers are is the command's, and nothing of theirs.
    let script = "mkdir -p fake/overlay-1; head -c 300000 /dev/urandom > ../cache/f; touch ready; sleep 1000";
    let overlay = format!("--overlay={}", cache.display());
    let _running = sandbox.run().options(["--session", "s", &overlay]).spawn(["sh", "-c", script]);
    eventually("the file", || sandbox.project.join("ready").exists().then_some(()));
    let told = sandbox.stockade(&["ps", "--json"]).plain().ok().out;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let bytes = told[0]["runs"][0]["overlay_bytes"].as_u64();
    assert!(bytes.is_some_and(|bytes| (300_000..400_000).contains(&bytes)), "{told}");
    sandbox.stockade(&["ps"]).plain().ok().shows(" 29");
}
