//! Programs at the root of a guarded project do the same, and leave the same behind, as outside.

use std::collections::BTreeSet;

use crate::support::{Outcome, PYTHON, Sandbox, eventually, is_root, need, python, real_home, size};

const TREE: &str = include_str!("../support/tree.py");

/// Beside the project, outside: everything that an archive can hold. The old times show whether they are restored. Programs
/// that find themselves to be root take it that they may write anywhere, so there is no directory without `w` then.
const SOURCE: &str = "mkdir ../src; cd ../src; umask 0; mkdir d d/e t shut; echo one > d/one; echo two > d/e/two
    ln d/one d/hard; ln -s one d/soft; ln -s nowhere dangling; ln -s / root; mkfifo fifo; echo x > 'a b'; echo x > \"$(printf 'n\\303')\"
    : > empty; truncate -s 1M sparse; echo end >> sparse; chmod 600 d/one; chmod 755 d/e/two; chmod 2775 d/e; chmod 1777 t
    chmod 444 empty; setfattr -n user.k -v v d/one 2>/dev/null || :; for n in $(seq 100); do echo $n > d/e/$n; done
    echo hidden > shut/f; [ $(id -u) = 0 ] || chmod 500 shut; find . -exec touch -h -d 2001-02-03T04:05:06.123456789Z {} +; cd ../p";

/// A command outside; where the tests are root it has as few capabilities as one inside.
fn bare(sandbox: &Sandbox, argv: &[&str]) -> Outcome {
    let dropped = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let argv = if is_root() { [&dropped[..], argv].concat() } else { argv.to_vec() };
    sandbox.outside(&argv)
}

/// What a command printed and the tree that it left, in which the sandbox has no name.
fn left(sandbox: &Sandbox, done: &Outcome) -> Vec<String> {
    let tree = sandbox.outside(&[PYTHON, "-c", TREE, sandbox.project.to_str().unwrap()]).ok();
    let base = sandbox.project.parent().unwrap().to_str().unwrap().to_owned();
    let printed = format!("{}{}", done.out, done.err).replace(&base, "BASE");
    printed.lines().chain(tree.out.lines()).map(str::to_owned).collect()
}

/// `argv` succeeds, and prints and leaves the same, in two projects in which `prepare` was done outside before.
#[track_caller]
fn same_argv(prepare: &str, argv: &[&str]) {
    let [outside, inside] = [false, true].map(|is_inside| {
        let sandbox = Sandbox::below(real_home());
        sandbox.script(&format!("set -e; {prepare}")).ok();
        let done = if is_inside { sandbox.run().argv(argv) } else { bare(&sandbox, argv) };
        left(&sandbox, &done.ok())
    });
    if outside != inside {
        let [was, is] = [&outside, &inside].map(|lines| lines.iter().collect::<BTreeSet<_>>());
        let only = |these: &BTreeSet<_>, those| {
            these.difference(those).take(20).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat()
        };
        let (was, is): (String, String) = (only(&was, &is), only(&is, &was));
        panic!("{argv:?}\nonly outside:\n{was}only inside:\n{is}");
    }
}

#[track_caller]
fn same(prepare: &str, script: &str) {
    same_argv(prepare, &["sh", "-c", &format!("set -e; umask 022\n{script}")]);
}

/// The Python program, with a number in the place of `NUMBER`.
#[track_caller]
fn same_python(program: &str, number: usize) {
    same_argv("", &python(&program.replace("NUMBER", &number.to_string())));
}

/// A C program, compiled outside.
#[track_caller]
fn same_c(program: &str, number: usize) {
    let compile = format!("cat > ../c.c <<'END'\n{program}\nEND\ncc -O -pthread -DNUMBER={number} -o ../c ../c.c");
    same(&compile, "../c");
}

/// Without this all the others would show nothing.
#[test]
fn the_project_is_guarded() {
    let sandbox = Sandbox::below(real_home());
    sandbox.sh("echo x > free && echo x > .mcp.json").fails().says("denied by policy: create ./.mcp.json");
    assert!(sandbox.project.join("free").exists());
}

#[test]
fn tar() {
    let prepare = format!("{SOURCE}; tar -C ../src --xattrs -cf ../a.tar .; mkdir d; echo old > d/one; ln -s d t");
    same(
        &prepare,
        "tar --xattrs -xpf ../a.tar --exclude ./t; tar -df ../a.tar --exclude ./t
        chmod 700 shut; tar --xattrs -xpf ../a.tar; tar -df ../a.tar",
    );
    same(
        &prepare,
        "mkdir in; cd in; umask 077; tar -xf ../../a.tar; tar -c . | tar -x -C .. --skip-old-files; chmod 700 shut",
    );
}

#[test]
fn rsync() {
    if !need("rsync") {
        return;
    }
    let prepare = format!("{SOURCE}; mkdir d old; echo longer > d/one; echo x > old/x; ln -s old gone; echo y > 'a b'");
    same(
        &prepare,
        "rsync -aHXi --delete ../src/ . | sort; echo again; rsync -aHXi --delete ../src/ .; echo more >> d/one
        rsync -aH --inplace --delete-before ../src/ .; rsync -a --remove-source-files d/e/ e; rsync -ab --suffix=~ ../src/d/e/ e",
    );
}

#[test]
fn cp() {
    same(SOURCE, "cp -a ../src/. .; cp -a d d2; cp -al d d3; cp -rs \"$PWD/d\" d4; cp -a --remove-destination d/e/1 d2/one; cp --backup=numbered d/one d/e/two
        cp -u d/one d2/one; cp --parents d/e/3 d2; install -D -m 640 d/e/4 i/n/s; mv -b d/e/5 d/e/6; mv -n d/e/7 d/e/8; dd if=d/e/9 of=d/e/10 conv=notrunc status=none");
}

/// Entries for other users than the own are in `docs/differences.md`.
#[test]
fn setfacl() {
    if !need("setfacl") {
        return;
    }
    same(
        "mkdir old; : > old/f",
        "setfacl -d -m u::rwx,g::rwx,m::rwx,u:$(id -u):rwx .; umask 077; mkdir new; : > new/f; : > f; mkdir new/d; cp -a new copy; ln -s f soft; mkfifo p
        setfacl -R -m u:$(id -u):r-- old; setfacl -m m::r f; chmod 640 new/f; getfacl -R . | grep -v '^# owner\\|^# group'
        setfacl -k new; : > new/g; setfacl -b f; setfacl -R -bk old; tar -c --acls new | tar -x --acls -C old",
    );
}

#[test]
fn editors_in_place() {
    let prepare = "for n in $(seq 50); do echo one > f$n; done; chmod 640 f1; ln f2 hard; ln -s f3 soft; chmod 444 f4";
    same(
        prepare,
        "sed -i s/one/two/ f*; sed -i.bak s/two/three/ f1 f2; sed -i --follow-symlinks s/two/four/ soft; cat f1 f2 f3 hard soft",
    );
    same(
        prepare,
        "perl -pi -e s/one/two/ f*; perl -pi.bak -e s/two/three/ f1 f2; sort -o f5 f6 f7; echo x | tee -a f8 > f9; truncate -s 2 f10",
    );
}

#[test]
fn vim() {
    if !need("vim") {
        return;
    }
    let edit = |options: &str, file: &str| {
        format!(
            "vim -N -es -u NONE -i NONE -c 'set backup swapfile undofile directory=. undodir=. {options}' -c 'e {file}' \
             -c 's/$/ more/' -c 'call writefile(glob(\".*.sw?\", 1, 1), \"swap\", \"a\")' -c 'wq' </dev/null; cat {file}\n"
        )
    };
    let script = ["backupcopy=yes", "backupcopy=no", "backupcopy=auto", "backupext=.old patchmode=.orig"]
        .map(|options| edit(options, "f"));
    let script = format!("{}{}{}rm .*.un~; cat swap", script.concat(), edit("", "soft"), edit("", "hard"));
    same("seq -f 'one %g' 200 > f; cp f g; ln -s g soft; cp f h; ln h hard; chmod 640 f", &script);
}

/// Two processes on one database with a shared memory file beside it.
#[test]
fn sqlite() {
    same_python(
        "
import os, sqlite3
def connect():
    return sqlite3.connect('db', timeout=60, isolation_level=None)
db = connect()
print(db.execute('pragma journal_mode=wal').fetchall())
db.execute('create table t (who, n)')
def work(who):
    db = connect()
    for n in range(NUMBER):
        db.execute('begin immediate'); db.execute('insert into t values (?, ?)', (who, n)); db.execute('commit')
        if n % 50 == 0: db.execute('pragma wal_checkpoint(passive)').fetchall()
    db.close()
    os._exit(0)
children = []
for who in range(3):
    pid = os.fork()
    if pid == 0: work(who)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children], sorted(os.listdir()))
print(db.execute('select who, count(*), sum(n) from t group by who').fetchall(), db.execute('pragma integrity_check').fetchall())
print(db.execute('pragma journal_mode=delete').fetchall())
db.execute('delete from t'); db.execute('vacuum'); db.execute('drop table t'); db.close(); print(sorted(os.listdir())); os.remove('db')
",
        size(40, 1000),
    );
}

#[test]
fn python_venv() {
    let pip = if size(0, 1) == 1 { "" } else { "--without-pip" };
    let venv = format!("{PYTHON} -m venv {pip}");
    same(
        "",
        &format!(
            "{venv} venv; venv/bin/python -c 'import sys; print(sys.prefix)'; {venv} --clear venv; {venv} --upgrade venv; {venv} --copies deep/er; rm -r deep"
        ),
    );
}

#[test]
fn make() {
    if !need("cc") || !need("make") {
        return;
    }
    let prepare = "for n in $(seq 12); do echo \"int f$n(void) { return $n; }\" > f$n.c; done
        echo 'int f1(void); int main(void) { return f1() - 1; }' > main.c
        printf '%s\\n' 'F := $(wildcard f*.c)' 'main: main.o libf.a' '\tcc -o $@ $^' 'libf.a: $(F:.c=.o)' '\trm -f $@; ar rc $@ $^' \
            'build/%.o: %.c | build' '\tcc -g0 -MMD -c -o $@ $<' 'build:' '\tmkdir $@' 'all: main $(F:%.c=build/%.o)' \
            'clean:' '\trm -rf build main *.o *.a' > Makefile";
    same(
        prepare,
        "make -sj4 all; ./main; make -s clean; make -sj4 all; touch f1.c; make -sj4 all; ./main; make -q all",
    );
}

/// Whether something was moved or copied shows in its inode number. The pauses are for what watches the mounts: first it
/// looks from time to time, later it is told.
#[test]
fn free_directories_are_moved_and_removed() {
    let prepare = "mkdir -p a/d a/x b c k l; for n in $(seq 20); do echo $n > a/d/$n; done; echo f > a/f; echo g > c/g";
    let inode = "inode() { stat -c %i $1; }; moved() { i=$(inode $1); mv $1 $2; [ $i = $(inode $2) ] && echo moved || echo copied; }";
    same(
        prepare,
        &format!(
            "{inode}
            moved a/f b/f; moved a/d b/d; moved b/f f; moved b/d d; moved f d/f; moved d a/d; ln a/d/1 b/one; ln b/one one; stat -c %h one
            moved c e; echo in > e/in; mkdir c; echo new > c/new; moved e/in c/in; moved e b/e; echo deep > b/e/deep; moved b/e e
            mkdir n; echo n > n/n; moved n a/n; rm -rf b; sleep .1; [ ! -e b ]; mkdir b; echo b > b/b; mv -T b a/x; rm -r e; mv a z; echo z > z/d/z
            cd z/d; mv ../../z ../../y; pwd -P | sed s:.*/p/:p/:; echo y > y; cd ../..; rm -rf c; echo c > c; sleep .4
            rm -r k; sleep .1; mv l m; sleep .1; echo m > m/m; ls -R"
        ),
    );
}

/// Who works in a directory that the command itself moves stays in it, with all that is above it.
#[test]
fn free_directories_are_moved_around_who_works_in_them() {
    let script = "cd a/d; mv ../../a ../../b; sleep .2; pwd -P | sed 's:.*/p/:p/:'; /bin/pwd >/dev/null; echo x > x; ls ../..
        sleep .3; mv ../../b ../../c; sleep .1; echo y > y; ls ../..; mkdir ../../e; mv ../../c ../../e/f; sleep .1; /bin/pwd >/dev/null; ls ../../..; echo z > z";
    same("mkdir -p a/d", script);
    let sandbox = Sandbox::below(real_home());
    sandbox.script("mkdir -p a/d; mkdir -m 700 $STOCKADE_STATE").ok();
    sandbox.run().option("--strict").sh(script).ok();
}

/// Where not all may be written, such a directory loses its mount, whoever moved it there.
#[test]
fn free_directories_that_the_host_moves_to_a_protected_place_lose_their_mount() {
    let sandbox = Sandbox::below(real_home());
    sandbox.script("mkdir -p a .claude").ok();
    let mut run = sandbox.run().spawn(["sh", "-c", "p=$PWD; cd a; echo x > x; until [ -e $p/go ]; do sleep .02; done; sleep .3; echo y > y; echo z > $p/.claude/hooks/z; mkdir $p/fine"]);
    eventually("the command works there", || sandbox.project.join("a/x").exists().then_some(()));
    sandbox.script("mv a .claude/hooks; touch go").ok();
    let _ = run.wait();
    sandbox.script("ls .claude/hooks; [ -d fine ]").ok().prints("x");
}

#[test]
fn git_mv_and_rm() {
    let git = "git() { command git -c user.name=n -c user.email=e -c core.fsmonitor=false \"$@\"; }
        export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z";
    let prepare = format!(
        "{git}; git init -qb main; mkdir a b; echo f > a/f; echo g > a/g; echo r > r; git add .; git commit -qm one"
    );
    same(
        &prepare,
        &format!(
            "{git}; git mv a/f b/f; git mv r a/r; git mv b/f f; git commit -qm two; git mv a c; git mv c b/c; git mv b d; git commit -qm three
            git rm -rq d; git commit -qm four; git checkout -q HEAD~1; git checkout -q main; git reset -q --hard HEAD~2; mkdir u; echo u > u/u
            git stash -qu; git stash pop -q; git clean -fdxq; git log --format=%H%s --name-status; git status --porcelain; git fsck"
        ),
    );
}

/// Packages from files: it needs no network, and each is unpacked, checked and moved into its place.
#[test]
fn npm_ci() {
    if !need("npm") {
        return;
    }
    let prepare = "mkdir ../pkg; cd ../pkg; for n in $(seq 12); do mkdir -p p$n/lib/deep; for m in $(seq 20); do echo \"exports.n = $m\" > p$n/lib/deep/$m.js; done
        echo '#!/usr/bin/env node' > p$n/cli.js; echo \"{\\\"name\\\":\\\"p$n\\\",\\\"version\\\":\\\"1.0.0\\\",\\\"bin\\\":\\\"cli.js\\\"}\" > p$n/package.json
        tar -c --mtime=@0 --sort=name p$n | gzip -n > p$n.tgz; done; cd ../p; { echo '{\"name\":\"x\",\"version\":\"1.0.0\",\"dependencies\":{'; for n in $(seq 12); do echo \"\\\"p$n\\\":\\\"file:../pkg/p$n.tgz\\\",\"; done | sed '$s/,//'; echo '}}'; } > package.json
        export npm_config_offline=true npm_config_cache=../cache0; npm install --package-lock-only --silent --no-audit --no-update-notifier";
    let again = size(1, 20);
    same(
        prepare,
        &format!(
            "export npm_config_cache=$PWD/.cache npm_config_audit=false npm_config_fund=false npm_config_offline=true npm_config_update_notifier=false
            for n in $(seq {again}); do npm ci --silent --foreground-scripts; done
            node -e 'console.log(require(\"p3/lib/deep/4\").n)'; node_modules/.bin/p5; rm -r .cache"
        ),
    );
}

/// A file that was just written and closed can be executed: nobody else has it open for writing.
#[test]
fn executed_at_once() {
    same_python(
        "
import os
with open('/bin/true', 'rb') as true: data = true.read()
busy = {}
for n in range(NUMBER):
    name = f'x{n % 7}'
    if n % 3 == 0 and os.path.exists(name): os.unlink(name)
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)
    os.write(fd, data); os.close(fd)
    try: status = os.waitpid(os.posix_spawn(name, [name], {}), 0)[1]
    except OSError as error: status = error.strerror
    busy[status] = busy.get(status, 0) + 1
print(busy)
",
        size(300, 3000),
    );
}

/// A lock ends with the last descriptor: nobody else has one.
#[test]
fn unlocked_at_once() {
    same_python(
        "
import fcntl, os
held = 0
for n in range(NUMBER):
    try:
        for flags in (os.O_RDWR | os.O_CREAT, os.O_WRONLY):
            fd = os.open('lock', flags, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)
    except BlockingIOError: held += 1; os.close(fd)
    if n % 5 == 0: os.unlink('lock')
print(held)
",
        size(1500, 3000),
    );
}

/// Signals interrupt any call that waits, and this handler restarts them: nothing fails and nothing is done twice.
#[test]
fn calls_under_a_storm_of_signals() {
    if !need("cc") {
        return;
    }
    let program = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static volatile int over; static volatile unsigned long caught; static pthread_t worker;
static void handler(int signal) { (void)signal; caught++; }
static void *storm(void *arg) { while (!over) { pthread_kill(worker, SIGURG); usleep(15); } return arg; }
static void check(const char *what, int n, int result) { if (result < 0) printf("%s %d: %s\n", what, n, strerror(errno)); }
int main(void) {
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    pthread_t sender; char a[32], b[32];
    sigaction(SIGURG, &action, 0); worker = pthread_self(); pthread_create(&sender, 0, storm, 0);
    for (int n = 0; n < NUMBER; n++) {
        snprintf(a, 32, "a%d", n); snprintf(b, 32, "b%d", n);
        int fd = open(a, O_WRONLY | O_CREAT | O_EXCL, 0644);
        check("open", n, fd); check("write", n, (int)write(fd, a, strlen(a))); check("close", n, close(fd));
        check("link", n, link(a, "l")); check("unlink", n, unlink("l")); check("rename", n, rename(a, b));
        check("mkdir", n, mkdir("d", 0755)); check("rmdir", n, rmdir("d"));
        check("symlink", n, symlink(b, "s")); check("chmod", n, chmod("s", 0600)); check("unlink", n, unlink("s"));
        if (n % 2) check("unlink", n, unlink(b));
    }
    over = 1; pthread_join(sender, 0);
    if (caught < NUMBER / 10) printf("no storm: %lu\n", caught);
    return 0;
}"#;
    same_c(program, size(500, 20_000));
}

/// Go's scheduler sends its own threads `SIGURG` all the time.
#[test]
fn go_under_preemption() {
    if !need("go") {
        return;
    }
    let program = r#"package main
import ("fmt"; "os"; "sync"; "path/filepath")
func main() {
    var all sync.WaitGroup
    over := make(chan bool)
    for spin := 0; spin < 2; spin++ { go func() { for n := 0; ; n++ { select { case <-over: return; default: } } }() }
    for worker := 0; worker < 8; worker++ {
        all.Add(1)
        go func(worker int) {
            defer all.Done()
            for n := 0; n < NUMBER; n++ {
                dir := fmt.Sprintf("w%d-%d", worker, n)
                check(os.MkdirAll(filepath.Join(dir, "a", "b"), 0755))
                check(os.WriteFile(filepath.Join(dir, "a", "b", "f"), []byte(dir), 0644))
                check(os.WriteFile(dir + ".f", []byte(dir), 0600))
                check(os.Rename(dir + ".f", filepath.Join(dir, "f")))
                check(os.Rename(dir, dir + ".d"))
                if n % 4 != 0 { check(os.RemoveAll(dir + ".d")) }
            }
        }(worker)
    }
    all.Wait(); close(over)
}
func check(err error) { if err != nil { fmt.Println(err) } }
"#;
    let program = program.replace("NUMBER", &size(25, 500).to_string());
    let compile = format!(
        "mkdir ../go; cat > ../go/m.go <<'END'\n{program}END\ncd ../go; GOCACHE=$PWD/cache GO111MODULE=off go build -o ../m m.go"
    );
    same(&compile, "../m");
}
