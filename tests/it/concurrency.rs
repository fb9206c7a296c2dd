//! Many sandboxes in one directory at once.

use std::thread;

use crate::support::{Sandbox, size};

#[test]
fn eight_sessions_in_one_directory() {
    let sandbox = Sandbox::new();
    let runs = size(12, 100);
    thread::scope(|scope| {
        for session in 0..8 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                for _ in 0..runs {
                    sandbox.run().session(&format!("s{session}")).sh("echo x >> /tmp/runs; echo x >> runs").ok();
                }
            });
        }
    });
    for session in 0..8 {
        let run = sandbox.run().session(&format!("s{session}"));
        run.sh("wc -l < /tmp/runs").ok().prints(&runs.to_string());
    }
    let all = std::fs::read_to_string(sandbox.project.join("runs")).unwrap();
    assert_eq!(all.lines().count(), 8 * runs);
}

#[test]
fn eight_runs_of_one_session() {
    let sandbox = Sandbox::new();
    let runs = size(6, 50);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..runs).for_each(|_| drop(sandbox.run().session("s").sh("echo x >> /tmp/runs").ok())));
        }
    });
    sandbox.run().session("s").sh("wc -l < /tmp/runs").ok().prints(&(8 * runs).to_string());
}

#[test]
fn runs_race_with_the_end_of_their_session() {
    let sandbox = Sandbox::new();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                (0..size(10, 100))
                    .for_each(|_| drop(sandbox.run().session("s").sh("echo x > /tmp/x && cat /tmp/x").ok()));
            });
        }
        scope.spawn(|| {
            for _ in 0..size(20, 200) {
                let end = sandbox.stockade(&["session", "end", "s"]).plain();
                assert!(end.code == 0 || end.code == 125, "{}", end.describe());
            }
        });
    });
    let _ = sandbox.stockade(&["session", "end", "s"]).plain();
    assert_eq!(sandbox.left_behind(), Vec::<std::path::PathBuf>::new());
}
