//! Overlays that are kept: what changed, taking it over, throwing it away.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Outcome, PYTHON, Running, Sandbox, need, real_home, size};

struct Kept {
    sandbox: Sandbox,
    lower: PathBuf,
}

impl Kept {
    /// A directory with files, and a run that changed it.
    fn of(files: &[(&str, &str)], script: &str) -> Self {
        let sandbox = Sandbox::below(real_home());
        let lower = sandbox.beside("lower");
        fs::create_dir(&lower).unwrap();
        for (name, text) in files {
            sandbox.file_beside(&format!("lower/{name}"), text);
        }
        // What was made in the same tick of the clock as the run began counts as changed since.
        thread::sleep(Duration::from_millis(20));
        let kept = Self { sandbox, lower };
        kept.run("k", script).ok();
        kept
    }

    fn run(&self, name: &str, script: &str) -> Outcome {
        let run = self.sandbox.run().options(["--keep-overlay", name, "--overlay"]).option(&self.lower);
        run.sh(&format!("set -e; cd {}; {script}", self.lower.display()))
    }

    fn overlay(&self, args: &[&str]) -> Outcome {
        let words: Vec<&str> = ["overlay"].iter().chain(args).copied().collect();
        self.sandbox.stockade(&words).plain()
    }

    /// The summary, without the directory's own path.
    fn stat(&self) -> String {
        let text = self.overlay(&["diff", "--stat", "k"]).ok().out;
        text.replace(&format!("{}/", self.lower.display()), "")
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.lower.join(name)).unwrap()
    }
}

#[test]
fn added_changed_removed_and_modes_are_told_and_taken_over() {
    let files = [("a", "a\n"), ("b", "b\n"), ("gone/x", "x"), ("mode", "m"), ("to-dir", "t"), ("to-file/y", "y")];
    let script = "echo more >> a; rm b; rm -r gone; chmod 700 mode; rm to-dir; mkdir to-dir; echo i > to-dir/i
        rm -r to-file; echo f > to-file; mkdir -p new/deep; echo n > new/deep/n; chmod 700 new; ln -s a link";
    let kept = Kept::of(&files, script);
    let stat = kept.stat();
    let lines: Vec<&str> = stat.lines().collect();
    assert_eq!(lines.len(), 11, "{stat}");
    for (line, start) in lines.iter().zip([
        "changed    a (2 -> 7 bytes)",
        "removed    b",
        "removed    gone/",
        "added      link",
        "attributes mode (mode 644 -> 700)",
        "added      new/",
        "added      new/deep/",
        "added      new/deep/n",
        "replaced   to-dir/",
        "added      to-dir/i",
        "replaced   to-file",
    ]) {
        assert!(line.starts_with(start), "{line:?} is not {start:?}");
    }
    kept.overlay(&["diff", "k"]).ok().shows("+more");
    kept.overlay(&["apply", "k"]).ok().prints("11 changes applied");
    assert_eq!(
        (kept.text("a"), kept.text("to-dir/i"), kept.text("to-file")),
        ("a\nmore\n".into(), "i\n".into(), "f\n".into())
    );
    assert!(!kept.lower.join("b").exists() && !kept.lower.join("gone").exists());
    assert_eq!(fs::metadata(kept.lower.join("mode")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(kept.lower.join("new")).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(kept.stat(), "");
    kept.overlay(&["apply", "k"]).ok().prints("0 changes applied");
}

#[test]
fn renames_directories_made_anew_links_holes_and_times() {
    let files = [("old", "text"), ("opaque/1", "1"), ("opaque/2", "2"), ("opaque/3", "3")];
    let script = "mv old renamed; rm -r opaque; mkdir opaque; echo new > opaque/2; echo h > h1; ln h1 h2
        truncate -s 4M sparse; echo end >> sparse; touch -d @1000000000 sparse; mkfifo fifo";
    let kept = Kept::of(&files, script);
    kept.overlay(&["apply", "k"]).ok();
    assert_eq!((kept.text("renamed"), kept.text("opaque/2")), ("text".into(), "new\n".into()));
    assert!(!kept.lower.join("old").exists() && !kept.lower.join("opaque/1").exists());
    let meta = |name: &str| fs::symlink_metadata(kept.lower.join(name)).unwrap();
    assert_eq!(meta("h1").ino(), meta("h2").ino());
    assert_eq!((meta("sparse").len(), meta("sparse").mtime()), ((4 << 20) + 4, 1_000_000_000));
    assert!(meta("sparse").blocks() * 512 < 1 << 20, "{} blocks", meta("sparse").blocks());
    let names: Vec<_> = fs::read_dir(&kept.lower).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with(".stockade")), "{names:?}");
}

#[test]
fn what_the_host_changed_meanwhile_is_a_conflict() {
    let files = [("a", "a"), ("b", "b"), ("c", "c"), ("dir/f", "f"), ("gone", "g"), ("fine", "fine")];
    let script = "for f in a gone fine; do echo run >> $f; done; rm b; rm -r dir; echo n > new";
    let kept = Kept::of(&files, script);
    for (name, text) in [("a", "host"), ("b", "host"), ("dir/g", "host"), ("new", "host")] {
        fs::write(kept.lower.join(name), text).unwrap();
    }
    fs::remove_file(kept.lower.join("gone")).unwrap();
    let outcome = kept.overlay(&["apply", "k"]).status(1).says("nothing was applied");
    assert_eq!(outcome.out.lines().count(), 5, "{}", outcome.describe());
    assert_eq!((kept.text("a"), kept.text("fine")), ("host".into(), "fine".into()));
    let fine = kept.lower.join("fine");
    kept.overlay(&["apply", "k", fine.to_str().unwrap()]).ok().prints("1 changes applied");
    assert_eq!(kept.text("fine"), "finerun\n");
    kept.overlay(&["apply", "--force", "k"]).ok();
    assert_eq!((kept.text("a"), kept.text("new"), kept.text("gone")), ("arun\n".into(), "n\n".into(), "grun\n".into()));
    assert!(!kept.lower.join("b").exists() && !kept.lower.join("dir").exists());
}

#[test]
fn a_directory_that_became_a_link_is_not_followed() {
    let kept = Kept::of(&[("dir/f", "f")], "echo run > dir/f");
    let elsewhere = kept.sandbox.file_beside("elsewhere/f", "safe");
    fs::remove_dir_all(kept.lower.join("dir")).unwrap();
    std::os::unix::fs::symlink(elsewhere.parent().unwrap(), kept.lower.join("dir")).unwrap();
    kept.overlay(&["apply", "k"]).status(1);
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "safe");
}

#[test]
fn a_name_is_used_once_and_discard_leaves_nothing() {
    let kept = Kept::of(&[("a", "a")], "echo x > a; mkdir -m 0 closed");
    kept.run("k", "true").refused().says("kept as k already");
    kept.run("../k", "true").refused().says("cannot be the name");
    kept.overlay(&["list"]).ok().shows("k\tkept").shows("echo x > a");
    kept.overlay(&["discard", "k"]).ok();
    kept.overlay(&["list"]).ok().prints("");
    kept.overlay(&["diff", "k"]).refused().says("nothing is kept as k");
    assert_eq!(kept.text("a"), "a");
    assert_eq!(kept.sandbox.left_behind(), Vec::<PathBuf>::new());
}

#[test]
fn nothing_is_applied_while_the_run_writes() {
    let sandbox = Sandbox::below(real_home());
    let lower = sandbox.file_beside("lower/f", "f").parent().unwrap().to_owned();
    let script = format!("touch started; echo x > {}/f; exec sleep 30", lower.display());
    let run = sandbox.run().options(["--keep-overlay", "k", "--overlay"]).option(&lower);
    let mut run = run.spawn(["sh", "-c", &script]);
    crate::support::eventually("it runs", || sandbox.project.join("started").exists().then_some(()));
    for command in ["diff", "apply", "discard"] {
        sandbox.stockade(&["overlay", command, "k"]).plain().refused().says("still writes to k");
    }
    sandbox.stockade(&["overlay", "list"]).plain().ok().shows("k\tin use");
    run.signal(Signal::TERM);
    let _ = run.wait();
    sandbox.stockade(&["overlay", "discard", "k"]).plain().ok();
}

#[test]
fn killed_at_random_moments_it_leaves_the_old_or_the_new() {
    let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
    let old = "old".repeat(30_000);
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), old.as_str())).collect();
    let script = "for f in f*; do head -c 90000 /dev/zero | tr '\\0' n > $f; done; echo x > new";
    let kept = Kept::of(&files, script);
    let new = "n".repeat(90_000);
    let mut random = std::process::id();
    let (mut applied, mut killed) = (0, 0);
    for _ in 0..size(20, 100) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut apply = Running::new(command(&kept));
        thread::sleep(Duration::from_micros(u64::from(random >> 18)));
        apply.signal(Signal::KILL);
        killed += usize::from(apply.wait().code == 1009);
        let texts: Vec<String> = names.iter().map(|name| kept.text(name)).collect();
        assert!(texts.iter().all(|text| *text == old || *text == new));
        applied += texts.iter().filter(|text| **text == new).count();
        // Back to the start, so that there is something to do the next time.
        for name in names.iter().step_by(2) {
            fs::write(kept.lower.join(name), &old).unwrap();
        }
    }
    assert!(killed > 0 && applied > 0, "{killed} kills, {applied} applied");
    kept.overlay(&["apply", "--force", "k"]).ok();
    let left: Vec<_> = fs::read_dir(&kept.lower).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
    assert_eq!(kept.text("new"), "x\n");
}

fn command(kept: &Kept) -> std::process::Command {
    let mut command = std::process::Command::new(kept.sandbox.binary());
    command.args(["overlay", "apply", "--force", "k"]).env("STOCKADE_STATE", &kept.sandbox.state);
    command.env("HOME", &kept.sandbox.home).stdout(std::process::Stdio::null());
    command
}

#[test]
fn a_layer_below_the_directory_that_it_is_laid_over() {
    let sandbox = Sandbox::below(real_home());
    let base = sandbox.state.parent().unwrap().to_owned();
    let run = sandbox.run().options(["--keep-overlay", "k", "--overlay"]).option(&base);
    run.sh(&format!("echo x > {0}/new; ls -A {0}/s; cat {0}/new", base.display())).shows("x").says("Permission denied");
    assert!(!base.join("new").exists());
    sandbox.stockade(&["overlay", "apply", "k"]).plain().ok().prints("1 changes applied");
    assert_eq!(fs::read_to_string(base.join("new")).unwrap(), "x\n");
}

#[test]
fn try_asks_on_a_terminal() {
    if !need("python3") || !Path::new(PYTHON).exists() {
        return;
    }
    for (answer, exists) in [("a\n", true), ("d\n", false)] {
        let sandbox = Sandbox::below(real_home());
        let words = sandbox.run().option("--try").words(["sh", "-c", "echo x > ~/dotfile; echo y > here"]);
        let outcome = sandbox.terminal(&[("expect", "or keep"), ("send", answer)], &words);
        assert!(outcome.out.contains("+x"), "{}", outcome.describe());
        assert_eq!(sandbox.home.join("dotfile").exists(), exists, "{}", outcome.describe());
        assert!(sandbox.project.join("here").exists());
        sandbox.stockade(&["overlay", "list"]).plain().ok().prints("");
    }
}
