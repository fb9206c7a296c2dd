//! Sessions as a whole, on a real file system.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::sys::{Errno, attr, host};

const HOUR: Duration = Duration::from_secs(3600);
const ALL: Reap = Reap { scope: Scope::All, idle: HOUR, dry_run: false, within: None };

/// A test that starts a process has its descriptors, and so its locks, in a second process for a moment, between fork and
/// exec: a lease of another test in this process then seems to be held. So one at a time.
static ALONE: Mutex<()> = Mutex::new(());

pub(super) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Fixture {
    _temp: (tempfile::TempDir, MutexGuard<'static, ()>),
    store: Store,
}

fn fixture() -> Fixture {
    let temp = (tempfile::tempdir().unwrap(), alone());
    let store = Store::open(&temp.0.path().join("state")).unwrap();
    Fixture { _temp: temp, store }
}

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

fn open(store: &Store, text: &str) -> Lease {
    store.session(&id(text), &Want::default()).unwrap()
}

fn names(path: PathBuf) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn nothing_left(store: &Store) {
    assert_eq!(names(store.path().join("sessions")), [""; 0]);
    assert_eq!(names(store.path().join("runs")), [""; 0]);
    assert_eq!(names(store.path().join("trash")), [""; 0]);
}

/// An owner that is gone.
fn gone() -> Owner {
    let owner = Owner::of(std::process::id()).unwrap().unwrap();
    Owner { start_time: owner.start_time + 1, ..owner }
}

fn edit(store: &Store, session: &str, change: impl FnOnce(&mut Record)) {
    let path = store.session_path(&id(session)).join("record.json");
    let mut record: Record = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut record);
    fs::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
}

fn used(store: &Store, session: &str, ago: Duration) {
    let lease = fs::File::open(store.session_path(&id(session)).join("lease")).unwrap();
    attr::set_time(&lease, SystemTime::now() - ago).unwrap();
}

#[test]
fn private_directories_stay_between_leases_and_go_with_the_session() {
    let Fixture { store, _temp } = fixture();
    let lease = open(&store, "s1");
    let (_, tmp) = lease.private(Path::new("/tmp")).unwrap();
    fs::write(tmp.join("x"), "1").unwrap();
    assert_eq!(fs::metadata(&tmp).unwrap().permissions().mode() & 0o7777, 0o700);
    drop(lease);
    let lease = open(&store, "s1");
    assert_eq!(lease.private(Path::new("/tmp")).unwrap().1, tmp);
    assert!(lease.existing(Path::new("/var/tmp")).unwrap().is_none());
    assert_eq!(store.path_of(&id("s1"), Path::new("/tmp/x")).unwrap(), tmp.join("x"));
    assert!(fs::exists(tmp.join("x")).unwrap());
    drop(lease);
    let ended = store.end(&id("s1"), End::Refuse).unwrap();
    assert_eq!(ended.sessions, [id("s1")]);
    nothing_left(&store);
    assert!(matches!(store.end(&id("s1"), End::Refuse), Err(Error::NoSession(_))));
}

#[test]
fn paths_inside_become_paths_outside() {
    let Fixture { store, _temp } = fixture();
    let lease = open(&store, "s");
    let of = |inside: &str| store.path_of(&id("s"), Path::new(inside));
    assert!(of("/tmp").unwrap_err().to_string().ends_with("(it has none yet)"));
    for private in ["/tmp", "/tmp/a/b", "/"] {
        lease.private(Path::new(private)).unwrap();
    }
    let private = lease.path().join("private");
    assert_eq!(of("/tmp/./a//x").unwrap(), private.join("tmp/a/x"));
    assert_eq!(of("/tmp/a/b/c").unwrap(), private.join("tmp-a-b/c"));
    assert_eq!(of("/tmp/a/bc").unwrap(), private.join("tmp/a/bc"));
    assert_eq!(of("/etc").unwrap(), private.join("-/etc"));
    assert!(matches!(of("/tmp/../x"), Err(Error::BadPrivate(_))));
    assert!(matches!(of("tmp"), Err(Error::BadPrivate(_))));
    assert!(matches!(store.path_of(&id("t"), Path::new("/tmp")), Err(Error::NoSession(_))));
}

#[test]
fn an_anonymous_session_goes_with_its_lease() {
    let Fixture { store, _temp } = fixture();
    let lease = store.anonymous(None).unwrap();
    assert!(lease.is_anonymous());
    let (_, tmp) = lease.private(Path::new("/tmp")).unwrap();
    fs::create_dir_all(tmp.join("a/b")).unwrap();
    let run = lease.run_record("true", None).unwrap();
    fs::create_dir_all(run.dir().unwrap().1.join("overlay/work")).unwrap();
    drop(run);
    assert_eq!(names(lease.path().join("runs")), [""; 0]);
    assert!(lease.end().unwrap().is_empty());
    nothing_left(&store);
}

#[test]
fn a_run_with_its_own_session_is_named_without_a_record() {
    let Fixture { store, _temp } = fixture();
    let lease = store.anonymous(None).unwrap();
    let error = store.end(lease.id(), End::Refuse).unwrap_err();
    assert!(error.to_string().ends_with(&format!(" is in use by process {}", std::process::id())), "{error}");
    assert_eq!(store.find(lease.id()).unwrap().unwrap().runs.len(), 1);
    lease.end().unwrap();
}

#[test]
fn a_killed_run_leaves_nothing_after_the_next_reap() {
    let Fixture { store, _temp } = fixture();
    let lease = store.anonymous(None).unwrap();
    let mut run = lease.run_record("true", None).unwrap();
    run.dir().unwrap();
    run.disown();
    drop(run);
    lease.private(Path::new("/tmp")).unwrap();
    fs::create_dir(store.path().join("runs/.new-0")).unwrap();
    fs::create_dir_all(store.path().join("runs/.new-1/private")).unwrap();
    fs::write(store.path().join("runs/.new-1/lease"), "").unwrap();
    fs::create_dir_all(store.path().join("trash/0/private/x")).unwrap();
    let leftovers = Reap { scope: Scope::Leftovers, ..ALL };
    let kept = store.reap(Reap { dry_run: true, ..leftovers }).unwrap();
    assert_eq!((kept.sessions.len(), kept.leftovers), (0, 1));
    assert!(lease.path().exists());
    drop(lease);
    let reaped = store.reap(leftovers).unwrap();
    assert_eq!((reaped.sessions.len(), reaped.leftovers), (1, 3), "{reaped:?}");
    assert_eq!(reaped.sessions[0].1, Why::RunOver);
    nothing_left(&store);
}

#[test]
fn sessions_end_for_the_stated_reasons_only() {
    let Fixture { store, _temp } = fixture();
    let us = Owner::of(std::process::id()).unwrap();
    for (name, owner) in [
        ("owned", us.clone()),
        ("orphan", Some(gone())),
        ("elsewhere", Some(Owner { pid_ns: 1, ..gone() })),
        ("elsewhere-idle", Some(Owner { pid_ns: 1, ..gone() })),
        ("held", Some(gone())),
        ("reboot", us.clone()),
        ("free", None),
        ("idle", None),
        ("torn", None),
        ("torn-idle", None),
        ("newer", us.clone()),
        ("foreign", us.clone()),
    ] {
        store.session(&id(name), &Want { owner, ..Want::default() }).unwrap();
    }
    for name in ["idle", "elsewhere-idle", "torn-idle", "owned"] {
        used(&store, name, HOUR * 2);
    }
    edit(&store, "reboot", |record| record.boot_id = "earlier".into());
    edit(&store, "foreign", |record| record.id = id("other"));
    for (name, text) in [("torn", "{\"sch"), ("torn-idle", ""), ("newer", "{\"schema\":9}")] {
        fs::write(store.session_path(&id(name)).join("record.json"), text).unwrap();
    }
    fs::write(store.path().join("sessions/file"), "").unwrap();
    let held = open(&store, "held");
    let dry = store.reap(Reap { dry_run: true, ..ALL }).unwrap();
    let reaped = store.reap(ALL).unwrap();
    assert_eq!(dry.sessions, reaped.sessions);
    let expected = [
        (id("elsewhere-idle"), Why::Idle),
        (id("idle"), Why::Idle),
        (id("orphan"), Why::OwnerGone),
        (id("reboot"), Why::Reboot),
        (id("torn-idle"), Why::Idle),
    ];
    assert_eq!(reaped.sessions, expected);
    let unreadable: Vec<&str> = reaped.unreadable.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(unreadable, ["foreign", "newer", "torn"]);
    assert!(reaped.complete && reaped.left.is_empty());
    let listing = store.list().unwrap();
    let listed: Vec<&str> = listing.sessions.iter().map(|found| found.id.as_str()).collect();
    assert_eq!(listed, ["elsewhere", "foreign", "free", "held", "newer", "owned", "torn"]);
    assert_eq!(listing.odd, [store.path().join("sessions/file")]);
    assert!(listing.sessions.iter().all(|found| found.in_use == (found.id == id("held"))));
    drop(held);
    assert_eq!(store.reap(ALL).unwrap().sessions, [(id("held"), Why::OwnerGone)]);
}

#[test]
fn opening_takes_a_session_into_this_boot_and_to_a_new_owner() {
    let Fixture { store, _temp } = fixture();
    store.session(&id("s"), &Want { owner: Some(gone()), ..Want::default() }).unwrap();
    edit(&store, "s", |record| record.boot_id = "earlier".into());
    open(&store, "s").private(Path::new("/tmp")).unwrap();
    assert!(store.reap(ALL).unwrap().sessions.is_empty());
    let owner = Owner::of(std::process::id()).unwrap();
    let lease = store.session(&id("s"), &Want { owner: owner.clone(), ..Want::default() }).unwrap();
    assert_eq!(lease.record().readable().unwrap().owner, owner);
    drop(lease);
    assert_eq!(store.find(&id("s")).unwrap().unwrap().record.readable().unwrap().owner, owner);
    assert_eq!(names(store.session_path(&id("s"))), ["lease", "private", "record.json"]);
}

#[test]
fn children_share_hold_and_end_with_their_parent() {
    let Fixture { store, _temp } = fixture();
    let child = Want { parent: Some(id("p")), ..Want::default() };
    let lease = store.session(&id("c"), &child).unwrap();
    assert_eq!(lease.fds().count(), 2);
    let (_, tmp) = lease.private(Path::new("/tmp")).unwrap();
    assert_eq!(tmp, store.session_path(&id("p")).join("private/tmp"));
    assert_eq!(store.path_of(&id("c"), Path::new("/tmp")).unwrap(), tmp);
    let run = lease.run_record("make", None).unwrap();
    let Err(Error::InUse { holders, .. }) = store.end(&id("p"), End::Refuse) else { panic!("not refused") };
    assert_eq!(holders[0].session, id("c"));
    drop((run, lease));
    // Without --parent it still is the child.
    assert_eq!(open(&store, "c").parent().unwrap().id(), &id("p"));
    let other = Want { parent: Some(id("q")), ..Want::default() };
    assert!(matches!(store.session(&id("c"), &other), Err(Error::OtherParent { .. })));
    let itself = Want { parent: Some(id("x")), ..Want::default() };
    assert!(matches!(store.session(&id("x"), &itself), Err(Error::ParentLoop(_))));
    assert_eq!(store.end(&id("p"), End::Refuse).unwrap().sessions, [id("p"), id("c")]);
    nothing_left(&store);
}

#[test]
fn families_are_reaped_together() {
    let Fixture { store, _temp } = fixture();
    let owner = Owner::of(std::process::id()).unwrap();
    store.session(&id("c"), &Want { parent: Some(id("p")), owner, ..Want::default() }).unwrap();
    used(&store, "p", HOUR * 2);
    assert!(store.reap(ALL).unwrap().sessions.is_empty());
    edit(&store, "c", |record| record.owner = Some(gone()));
    assert_eq!(store.reap(ALL).unwrap().sessions, [(id("c"), Why::OwnerGone), (id("p"), Why::Idle)]);
    store.session(&id("c"), &Want { parent: Some(id("p")), ..Want::default() }).unwrap();
    fs::remove_dir_all(store.session_path(&id("p"))).unwrap();
    assert_eq!(store.reap(ALL).unwrap().sessions, [(id("c"), Why::ParentGone)]);
}

#[test]
fn a_session_in_use_names_its_runs() {
    let Fixture { store, _temp } = fixture();
    let lease = open(&store, "s");
    let run = lease.run_record("sleep 9", None).unwrap();
    let error = store.end(&id("s"), End::Refuse).unwrap_err();
    let pid = std::process::id();
    assert_eq!(error.to_string(), format!("session s is in use by process {pid} (\"sleep 9\")"));
    assert_eq!(store.find(&id("s")).unwrap().unwrap().runs[0].run, run.name());
    drop(run);
    let error = store.end(&id("s"), End::Refuse).unwrap_err();
    assert_eq!(error.to_string(), "session s is in use");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            drop(lease);
        });
        store.end(&id("s"), End::Wait).unwrap();
    });
    nothing_left(&store);
}

/// Let a process of its own run in the session: it has the lease and the record's lock, and the record names it.
fn run_elsewhere(store: &Store, session: &str, script: &str) -> std::process::Child {
    let lease = open(store, session);
    let mut run = lease.run_record(script, None).unwrap();
    let copy = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().unwrap();
    let mut command = Command::new("sh");
    let child = command.args(["-c", script]).stdin(copy(lease.as_fd())).stdout(copy(run.as_fd())).spawn().unwrap();
    supervise(&run, &Owner::of(child.id()).unwrap().unwrap());
    run.disown();
    child
}

fn supervise(run: &RunRecord, supervisor: &Owner) {
    let path = run.path();
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["supervisor"] = serde_json::to_value(supervisor).unwrap();
    fs::write(path, json.to_string()).unwrap();
}

#[test]
fn a_stranger_with_the_supervisors_pid_is_not_signalled() {
    let Fixture { store, _temp } = fixture();
    let lease = open(&store, "s");
    let run = lease.run_record("x", None).unwrap();
    let mut victim = Command::new("sleep").arg("60").spawn().unwrap();
    let owner = Owner::of(victim.id()).unwrap().unwrap();
    supervise(&run, &Owner { start_time: owner.start_time - 1, ..owner });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            drop((run, lease));
        });
        assert!(store.end(&id("s"), End::Kill).unwrap().signalled.is_empty());
    });
    assert!(victim.try_wait().unwrap().is_none());
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn a_session_is_ended_by_force() {
    let Fixture { store, _temp } = fixture();
    let mut soft = run_elsewhere(&store, "s", "exec sleep 60");
    let mut hard = run_elsewhere(&store, "s", "trap '' TERM; while :; do sleep 0.1; done >/dev/null </dev/null");
    std::thread::sleep(Duration::from_millis(200));
    let waits = std::thread::spawn(move || (soft.wait().unwrap(), hard.wait().unwrap()));
    let ended = store.end(&id("s"), End::Kill).unwrap();
    assert_eq!(ended.signalled.len(), 2);
    let (soft, hard) = waits.join().unwrap();
    assert_eq!((soft.signal(), hard.signal()), (Some(15), Some(9)));
    nothing_left(&store);
}

#[test]
fn a_forked_child_keeps_the_lease() {
    let Fixture { store, _temp } = fixture();
    let mut child = run_elsewhere(&store, "s", "exec sleep 60");
    let runs = store.session_path(&id("s")).join("runs");
    let run = names(runs.clone())[0].replace(".json", "");
    fs::create_dir_all(runs.join(run).join("overlay/upper")).unwrap();
    store.session(&id("s"), &Want { owner: Some(gone()), ..Want::default() }).unwrap();
    assert!(store.reap(ALL).unwrap().sessions.is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    // What the killed run left goes although the session stays.
    store.session(&id("s"), &Want { owner: Owner::of(std::process::id()).unwrap(), ..Want::default() }).unwrap();
    assert_eq!(names(runs.clone()).len(), 2);
    assert!(store.reap(ALL).unwrap().sessions.is_empty());
    assert_eq!(names(runs).len(), 0);
}

#[test]
fn a_session_is_made_only_when_that_is_wanted_and_never_from_something_else() {
    let Fixture { store, _temp } = fixture();
    let never = Want { create: Create::Never, ..Want::default() };
    assert!(matches!(store.session(&id("s"), &never), Err(Error::NoSession(_))));
    let sessions = store.path().join("sessions");
    std::os::unix::fs::symlink("/tmp", sessions.join("link")).unwrap();
    fs::write(sessions.join("file"), "").unwrap();
    fs::create_dir(sessions.join("empty")).unwrap();
    for odd in ["link", "file"] {
        assert!(matches!(store.session(&id(odd), &Want::default()), Err(Error::Odd { .. })), "{odd}");
        assert!(matches!(store.end(&id(odd), End::Kill), Err(Error::Odd { .. })), "{odd}");
    }
    // What lost its lease or its parts gets them again.
    open(&store, "empty").private(Path::new("/tmp")).unwrap();
    fs::remove_dir_all(&sessions).unwrap();
    open(&store, "s").run_record("x", None).unwrap();
    fs::remove_dir_all(store.path().join("trash")).unwrap();
    store.end(&id("s"), End::Refuse).unwrap();
}

#[test]
fn reaping_is_due_once() {
    let Fixture { store, _temp } = fixture();
    assert!(store.reap_due());
    assert!(!store.reap_due());
    let stamp = fs::File::open(store.path().join("reaped")).unwrap();
    for time in [SystemTime::now() - HOUR, SystemTime::now() + HOUR] {
        attr::set_time(&stamp, time).unwrap();
        assert!(store.reap_due());
        assert!(!store.reap_due());
    }
}

#[test]
fn work_is_bounded_and_goes_on_the_next_time() {
    let Fixture { store, _temp } = fixture();
    for n in 0..10 {
        store.session(&id(&format!("s{n}")), &Want { owner: Some(gone()), ..Want::default() }).unwrap();
    }
    let none = store.reap(Reap { within: Some(Duration::ZERO), ..ALL }).unwrap();
    assert!(!none.complete && none.sessions.is_empty());
    assert_eq!(store.reap(ALL).unwrap().sessions.len(), 10);
    nothing_left(&store);
}

/// Threads open, end and reap the same few sessions; a file in a session that is held must stay, and every open works.
#[test]
fn no_live_lease_loses_a_file() {
    let Fixture { store, _temp } = fixture();
    let stop = AtomicBool::new(false);
    let (opened, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let dead = Want { owner: Some(gone()), ..Want::default() };
    std::thread::scope(|scope| {
        for n in 0..5 {
            let (store, stop, opened, dead) = (&store, &stop, &opened, &dead);
            scope.spawn(move || {
                // A store of its own, as a process would have.
                let store = Store::open(store.path().parent().unwrap()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let count = opened.fetch_add(1, Ordering::Relaxed);
                    let lease = store.session(&id(if count % 3 == 0 { "a" } else { "b" }), dead).unwrap();
                    let (_, tmp) = lease.private(Path::new("/tmp")).unwrap();
                    let file = tmp.join(format!("f{n}"));
                    fs::write(&file, "x").unwrap();
                    let run = lease.run_record("x", None).unwrap();
                    assert!(run.path().exists());
                    std::thread::yield_now();
                    assert!(file.exists(), "a live session lost its file");
                    assert_eq!(
                        fs::metadata(lease.path()).unwrap().ino(),
                        crate::sys::fs::fstat(lease.dir()).unwrap().file.ino
                    );
                    fs::remove_file(file).unwrap();
                    drop((run, lease));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        for reaper in [false, true, true] {
            let (store, stop, ended) = (&store, &stop, &ended);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let done = if reaper {
                        let reaped = store.reap(ALL).unwrap();
                        assert!(reaped.left.is_empty(), "{:?}", reaped.left);
                        reaped.sessions.len()
                    } else {
                        // What another test says about a held one is no matter here.
                        ["a", "b"].iter().filter(|s| store.end(&id(s), End::Refuse).is_ok()).count()
                    };
                    ended.fetch_add(done, Ordering::Relaxed);
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(ended.load(Ordering::Relaxed) > 5, "{opened:?} {ended:?}");
    store.reap(ALL).unwrap();
    nothing_left(&store);
}

const REAP_AT: &str = "STOCKADE_TEST_REAP_AT";

/// Not a test of its own: the process that `a_reaper_may_be_killed_at_any_moment` kills.
#[test]
#[ignore = "the child process of another test"]
fn reaper_process() {
    let Some(state) = std::env::var_os(REAP_AT) else { return };
    let store = Store::open(Path::new(&state)).unwrap();
    loop {
        store.reap(ALL).unwrap();
    }
}

/// How often that one is killed: in CI, or by hand with `STOCKADE_SOAK=1`.
fn rounds() -> usize {
    if std::env::var_os("STOCKADE_SOAK").is_some_and(|value| value == "1") { 300 } else { 30 }
}

#[test]
fn a_reaper_may_be_killed_at_any_moment() {
    let Fixture { store, _temp } = fixture();
    let state = store.path().parent().unwrap().to_owned();
    let live = open(&store, "live");
    let file = live.private(Path::new("/tmp")).unwrap().1.join("file");
    fs::write(&file, "x").unwrap();
    let dead = Want { owner: Some(gone()), ..Want::default() };
    let kill_one = || {
        let mut reaper = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "session::tests::reaper_process"])
            .env(REAP_AT, &state)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let random = u64::from_str_radix(&host::random_name().unwrap()[..8], 16).unwrap();
        std::thread::sleep(Duration::from_micros(2000 + random % 20_000));
        reaper.kill().unwrap();
        reaper.wait().unwrap();
    };
    // What a run does: it opens a session that is just being reaped, and keeps what it wrote while it goes on.
    let open_one = |n: usize| {
        let lease = store.session(&id(&format!("dead{}", n % 10)), &dead).unwrap();
        let tmp = lease.private(Path::new("/tmp")).unwrap().1;
        fs::create_dir_all(tmp.join("a/b/c")).unwrap();
        fs::write(tmp.join("a/b/f"), "x").unwrap();
        std::thread::yield_now();
        assert!(tmp.join("a/b/f").exists());
    };
    let over = AtomicBool::new(false);
    let opened = std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            let mut opened = 0;
            while !over.load(Ordering::Relaxed) {
                open_one(opened);
                opened += 1;
            }
            opened
        });
        for _ in 0..rounds() {
            kill_one();
            assert!(file.exists() && !runs.is_finished());
        }
        over.store(true, Ordering::Relaxed);
        runs.join().unwrap()
    });
    assert!(opened > 0);
    drop(live);
    let reaped = store.reap(Reap { idle: Duration::ZERO, ..ALL }).unwrap();
    assert!(reaped.left.is_empty(), "{reaped:?}");
    nothing_left(&store);
}

/// By hand: `unshare -m TESTS --ignored mounted`; that the check itself is right is tested in `tree`.
#[test]
#[ignore = "needs a mount namespace of its own"]
fn what_is_mounted_in_a_session_stays() {
    let Fixture { store, _temp } = fixture();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "x").unwrap();
    let lease = open(&store, "s");
    let tmp = lease.private(Path::new("/tmp")).unwrap().1.join("a/mnt");
    fs::create_dir_all(&tmp).unwrap();
    drop(lease);
    let mounted = Command::new("mount").arg("--bind").args([outside.path(), &tmp]).status().unwrap();
    assert!(mounted.success());
    let ended = store.end(&id("s"), End::Refuse).unwrap();
    assert!(matches!(ended.left[..], [Left { cause: Cause::Mount, .. }]), "{:?}", ended.left);
    let mount = ended.left[0].path.clone();
    assert!(mount.ends_with("private/tmp/a/mnt") && mount.join("f").exists(), "{mount:?}");
    assert_eq!(store.reap(ALL).unwrap().left.len(), 1);
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    store.reap(ALL).unwrap();
    nothing_left(&store);
    assert!(outside.path().join("f").exists());
}

/// By hand, as the one above.
#[test]
#[ignore = "needs a mount namespace of its own"]
fn a_full_disk_and_a_mounted_read_only_one_leave_nothing_half_made() {
    let _alone = alone();
    let temp = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let made = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(temp.path()).status();
        assert!(made.unwrap().success());
    };
    let state = temp.path().join("state");
    let whole = |store: &Store| -> Result<()> {
        let lease = store.session(&id("s"), &Want::default())?;
        lease.private(Path::new("/tmp"))?;
        lease.run_record("x", None).map(drop)
    };
    let mut outcomes = Vec::new();
    for inodes in 2..16 {
        mount(&format!("nr_inodes={inodes}"));
        let outcome = Store::open(&state).and_then(|store| whole(&store).map(|()| store));
        if let Err(error) = &outcome {
            assert!(error.hint().unwrap().contains("df -i"), "{error}");
            let hidden =
                Command::new("find").arg(temp.path()).args(["-mindepth", "1", "-name", ".*"]).output().unwrap();
            assert!(hidden.stdout.is_empty(), "{error}: {}", String::from_utf8_lossy(&hidden.stdout));
        }
        outcomes.push(outcome.is_ok());
        drop(outcome);
        Command::new("umount").arg(temp.path()).status().unwrap();
    }
    assert!(!outcomes[0] && outcomes[outcomes.len() - 1] && outcomes.is_sorted(), "{outcomes:?}");
    mount("mode=0755");
    Store::open(&state).and_then(|store| whole(&store)).unwrap();
    assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(temp.path()).status().unwrap().success());
    for name in ["s", "t"] {
        let error = Store::open(&state).unwrap().session(&id(name), &Want::default()).unwrap_err();
        assert!(error.hint().unwrap().contains("read-only"), "{error}");
    }
    let error = Store::open(&temp.path().join("other")).unwrap_err();
    assert!(error.hint().unwrap().contains("read-only"), "{error}");
    Command::new("umount").arg(temp.path()).status().unwrap();
}

#[test]
fn a_full_or_read_only_disk_is_named() {
    let error = |errno| Error::call("create", "/s", crate::sys::Error::new("mkdirat", format_args!("x"), errno));
    assert!(error(Errno::NOSPC).hint().unwrap().contains("df -i"));
    assert!(error(Errno::ROFS).hint().unwrap().contains("read-only"));
    assert!(error(Errno::ACCESS).hint().is_some());
}

/// By hand: `cargo test --release cost -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    let Fixture { store, _temp } = fixture();
    let state = store.path().parent().unwrap().to_owned();
    let rounds = 2000;
    for sessions in [1, 1000] {
        for n in 0..sessions {
            store.session(&id(&format!("s{n}")), &Want { owner: Some(gone()), ..Want::default() }).unwrap();
        }
        open(&store, "s0").private(Path::new("/tmp")).unwrap();
        open(&store, "s0").private(Path::new("/var/tmp")).unwrap();
        let start = Instant::now();
        for _ in 0..rounds {
            let store = Store::open(&state).unwrap();
            let lease = open(&store, "s0");
            lease.private(Path::new("/tmp")).unwrap();
            lease.private(Path::new("/var/tmp")).unwrap();
        }
        let existing = start.elapsed() / rounds;
        let start = Instant::now();
        let lease = open(&store, "s0");
        for _ in 0..rounds {
            lease.run_record("x", None).unwrap();
        }
        let record = start.elapsed() / rounds;
        let start = Instant::now();
        for _ in 0..rounds {
            store.anonymous(None).unwrap().end().unwrap();
        }
        println!(
            "{sessions} sessions: open {existing:?}, run record {record:?}, anonymous {:?}",
            start.elapsed() / rounds
        );
    }
    let start = Instant::now();
    println!("{} reaped in {:?}", store.reap(ALL).unwrap().sessions.len(), start.elapsed());
}
