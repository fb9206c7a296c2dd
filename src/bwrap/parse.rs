//! Reads the command line as bubblewrap 0.11 does: from left to right, and `--setenv`, `--unsetenv`, `--clearenv` and the
//! namespaces act at once, in order (`parse_args_recurse` there). Messages are bubblewrap's.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::capability::Capabilities;
use super::options::{Access, From, Misuse, Op, Options, Unshare, Upper, What};

type Done<T> = Result<T, Misuse>;

/// Gives what a descriptor of the caller's holds, and closes it.
pub(super) type ReadDescriptor<'a> = &'a dyn Fn(i32) -> std::io::Result<Vec<u8>>;

/// Read the words of a command line, without the program's own name.
pub(super) fn parse(
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    read: ReadDescriptor<'_>,
) -> Done<Options> {
    if words.first().is_some_and(|word| word == "--version") {
        return Err(Misuse::Version);
    }
    let options = Options { environment, ..Options::default() };
    let mut parser = Parser { options, next: Next::default(), seen: Vec::new(), read };
    if words.is_empty() {
        return Err(Misuse::Usage { asked: false });
    }
    let command = parser.options(words, false)?;
    if command.is_empty() {
        return Err(Misuse::Usage { asked: false });
    }
    parser.options.command = command;
    parser.check()?;
    Ok(parser.options)
}

/// What holds for the next option only.
#[derive(Default)]
struct Next {
    perms: Option<u32>,
    size: Option<u64>,
    lower: Vec<PathBuf>,
}

struct Parser<'a> {
    options: Options,
    next: Next,
    /// Options that count once only and were given.
    seen: Vec<&'static str>,
    read: ReadDescriptor<'a>,
}

/// The words that are still to be read.
struct Words(std::vec::IntoIter<OsString>);

impl Parser<'_> {
    fn fail<T>(&self, text: impl Into<String>) -> Done<T> {
        Err(Misuse::Message { text: text.into(), level_prefix: self.options.level_prefix })
    }

    /// Read options; gives the words behind them.
    fn options(&mut self, words: Vec<OsString>, in_file: bool) -> Done<Vec<OsString>> {
        let mut words = Words(words.into_iter());
        while let Some(word) = words.0.as_slice().first().cloned() {
            if !word.as_bytes().starts_with(b"-") {
                break;
            }
            words.0.next();
            if word == "--" {
                break;
            }
            self.option(&word, &mut words, in_file)?;
            self.check_next(&word)?;
        }
        if !self.next.lower.is_empty() {
            return self.fail(OVERLAY_SRC);
        }
        Ok(words.0.collect())
    }

    fn option(&mut self, word: &OsStr, words: &mut Words, in_file: bool) -> Done<()> {
        let Some(name) = word.to_str() else { return self.unknown(word) };
        match name {
            "--help" => Err(Misuse::Usage { asked: true }),
            "--args" if in_file => self.fail("--args not supported in arguments file"),
            "--args" => self.args(words),
            _ => {
                let known = self.switch(name) || self.value(name, words)? || self.step(name, words)?;
                if known { Ok(()) } else { self.unknown(word) }
            }
        }
    }

    fn unknown<T>(&self, word: &OsStr) -> Done<T> {
        self.fail(format!("Unknown option {}", word.display()))
    }

    fn args(&mut self, words: &mut Words) -> Done<()> {
        let fd = self.fd(words, "--args", "takes an argument")?;
        let text = match (self.read)(fd) {
            Ok(text) => text,
            Err(error) => return self.fail(format!("Can't read --args data: {}", super::reason(&error))),
        };
        let text = text.strip_suffix(b"\0").unwrap_or(&text);
        if text.is_empty() {
            return Ok(());
        }
        let listed = text.split(|&byte| byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
        self.options(listed, true).map(drop)
    }

    /// Options without a value.
    fn switch(&mut self, name: &str) -> bool {
        let Options { unshare, .. } = &mut self.options;
        match name {
            "--unshare-user" => unshare.user = true,
            "--unshare-user-try" => unshare.user_try = true,
            "--unshare-ipc" => unshare.ipc = true,
            "--unshare-pid" => unshare.pid = true,
            "--unshare-net" => unshare.net = true,
            "--unshare-uts" => unshare.uts = true,
            "--unshare-cgroup" => unshare.cgroup = true,
            "--unshare-cgroup-try" => unshare.cgroup_try = true,
            "--unshare-all" => {
                *unshare = Unshare {
                    user: unshare.user,
                    cgroup: unshare.cgroup,
                    user_try: true,
                    ipc: true,
                    pid: true,
                    net: true,
                    uts: true,
                    cgroup_try: true,
                };
            }
            "--share-net" => unshare.net = false,
            "--clearenv" => self.options.environment.retain(|(name, _)| name == "PWD"),
            "--level-prefix" => self.options.level_prefix = true,
            "--disable-userns" => self.options.disable_userns = true,
            "--assert-userns-disabled" => self.options.assert_userns_disabled = true,
            "--new-session" => self.options.new_session = true,
            "--die-with-parent" => self.options.die_with_parent = true,
            "--as-pid-1" => self.options.as_pid_1 = true,
            _ => return false,
        }
        true
    }

    /// Options with a value that make no part of the tree.
    fn value(&mut self, name: &str, words: &mut Words) -> Done<bool> {
        const ONE: &str = "takes an argument";
        match name {
            "--argv0" if self.options.argv0.is_some() => return self.fail("--argv0 used multiple times"),
            "--argv0" => self.options.argv0 = Some(self.word(words, name, "takes one argument")?),
            "--uid" => self.options.uid = Some(self.id(words, "--uid", "uid")?),
            "--gid" => self.options.gid = Some(self.id(words, "--gid", "gid")?),
            "--hostname" => {
                self.once("--hostname");
                self.options.hostname = Some(self.word(words, name, ONE)?);
            }
            "--chdir" => {
                self.once("--chdir");
                self.options.chdir = Some(self.word(words, name, "takes one argument")?.into());
            }
            "--setenv" => {
                let [variable, value] = self.two(words, name)?;
                self.unset(&variable);
                self.options.environment.push((variable, value));
            }
            "--unsetenv" => {
                let variable = self.word(words, name, ONE)?;
                self.unset(&variable);
            }
            "--lock-file" => self.options.lock_files.push(self.word(words, name, ONE)?.into()),
            "--sync-fd" => self.options.sync_fd = Some(self.once_fd(words, "--sync-fd")?),
            "--block-fd" => self.options.block_fd = Some(self.once_fd(words, "--block-fd")?),
            "--info-fd" => self.options.info_fd = Some(self.once_fd(words, "--info-fd")?),
            "--json-status-fd" => self.options.json_status_fd = Some(self.once_fd(words, "--json-status-fd")?),
            "--seccomp" if !self.options.seccomps.is_empty() => {
                return self.fail("--seccomp cannot be combined with --add-seccomp-fd");
            }
            "--seccomp" => self.options.seccomp = Some(self.once_fd(words, "--seccomp")?),
            "--add-seccomp-fd" if self.options.seccomp.is_some() => {
                return self.fail("--add-seccomp-fd cannot be combined with --seccomp");
            }
            "--add-seccomp-fd" => {
                let fd = self.fd(words, name, ONE)?;
                self.options.seccomps.push(fd);
            }
            "--cap-add" | "--cap-drop" => {
                let word = self.word(words, name, ONE)?;
                let Some(set) = Capabilities::parse(&word.to_string_lossy()) else {
                    return self.fail(format!("unknown cap: {}", word.display()));
                };
                self.options.capabilities.push((name == "--cap-add", set));
            }
            "--exec-label" | "--file-label" => {
                self.word(words, name, ONE)?;
                return self.fail("labeling not supported on this system");
            }
            "--userns" => self.options.userns = Some(self.once_fd(words, "--userns")?),
            "--userns2" => self.options.userns2 = Some(self.once_fd(words, "--userns2")?),
            "--pidns" => self.options.pidns = Some(self.once_fd(words, "--pidns")?),
            "--userns-block-fd" => {
                self.options.userns_block_fd = Some(self.once_fd(words, "--userns-block-fd")?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Options that make a part of the tree.
    fn step(&mut self, name: &str, words: &mut Words) -> Done<bool> {
        const ONE: &str = "takes an argument";
        let (what, to, option) = match name {
            "--bind" | "--bind-try" | "--ro-bind" | "--ro-bind-try" | "--dev-bind" | "--dev-bind-try" => {
                let [from, to] = self.two(words, name)?;
                let option = typed(name, &[&from, &to]);
                let source = From::Path(from.into());
                (What::Bind { source, access: access(name), optional: name.ends_with("-try") }, to, option)
            }
            "--bind-fd" | "--ro-bind-fd" => {
                let [fd, to] = self.two(words, name)?;
                let source = From::Descriptor(self.number(&fd)?);
                let option = typed(name, &[&fd, &to]);
                (What::Bind { source, access: access(name), optional: false }, to, option)
            }
            "--file" | "--bind-data" | "--ro-bind-data" => {
                let [fd, to] = self.two(words, name)?;
                let number = self.number(&fd)?;
                let option = typed(name, &[&fd, &to]);
                let data = What::Data { fd: number, writable: name == "--bind-data" };
                (if name == "--file" { What::File { fd: number } } else { data }, to, option)
            }
            "--symlink" => {
                let [target, to] = self.two(words, name)?;
                let option = typed(name, &[&target, &to]);
                (What::Symlink { target: target.into() }, to, option)
            }
            "--chmod" => {
                let [mode, to] = self.two(words, name)?;
                let option = typed(name, &[&mode, &to]);
                (What::Chmod { mode: self.octal(&mode, "--chmod")? }, to, option)
            }
            "--tmpfs" | "--proc" | "--dev" | "--mqueue" | "--dir" | "--remount-ro" => {
                let needs = if name == "--remount-ro" { "takes one argument" } else { ONE };
                let to = self.word(words, name, needs)?;
                let option = typed(name, &[&to]);
                (self.simple(name), to, option)
            }
            "--perms" => return self.perms(words).map(|()| true),
            "--size" => return self.size(words).map(|()| true),
            "--overlay-src" => {
                let Some(source) = words.0.next() else { return self.fail(OVERLAY_SRC) };
                self.next.lower.push(source.into());
                return Ok(true);
            }
            "--overlay" | "--tmp-overlay" | "--ro-overlay" => self.overlay(name, words)?,
            _ => return Ok(false),
        };
        let takes_perms = matches!(what, What::Tmpfs { .. } | What::Dir | What::File { .. } | What::Data { .. });
        let perms = if takes_perms { self.next.perms.take() } else { None };
        self.options.steps.push(Op { option, what, to: to.into(), perms });
        Ok(true)
    }

    fn simple(&mut self, name: &str) -> What {
        match name {
            "--tmpfs" => What::Tmpfs { size: self.next.size.take() },
            "--proc" => What::Proc,
            "--dev" => What::Dev,
            "--mqueue" => What::Mqueue,
            "--dir" => What::Dir,
            _ => What::RemountRo,
        }
    }

    fn overlay(&mut self, name: &str, words: &mut Words) -> Done<(What, OsString, String)> {
        let (upper, to, option) = if name == "--overlay" {
            let (Some(upper), Some(work), Some(to)) = (words.0.next(), words.0.next(), words.0.next()) else {
                return self.fail("--overlay takes three arguments");
            };
            let option = typed(name, &[&upper, &work, &to]);
            (Upper::Host { upper: upper.into(), work: work.into() }, to, option)
        } else {
            let to = self.word(words, name, "takes an argument")?;
            let option = typed(name, &[&to]);
            (if name == "--tmp-overlay" { Upper::Memory } else { Upper::Nothing }, to, option)
        };
        let lower = std::mem::take(&mut self.next.lower);
        match (&upper, lower.len()) {
            (Upper::Nothing, 0 | 1) => self.fail("--ro-overlay requires at least two --overlay-src"),
            (_, 0) => self.fail(format!("{name} requires at least one --overlay-src")),
            _ => Ok((What::Overlay { lower, upper }, to, option)),
        }
    }

    fn perms(&mut self, words: &mut Words) -> Done<()> {
        let word = self.word(words, "--perms", "takes an argument")?;
        if self.next.perms.is_some() {
            return self.fail("--perms given twice for the same action");
        }
        self.next.perms = Some(self.octal(&word, "--perms")?);
        Ok(())
    }

    fn size(&mut self, words: &mut Words) -> Done<()> {
        let word = self.word(words, "--size", "takes an argument")?;
        if self.next.size.is_some() {
            return self.fail("--size given twice for the same action");
        }
        match word.to_str().and_then(|text| text.parse().ok()) {
            Some(size) if size > 0 => self.next.size = Some(size),
            _ => return self.fail("--size takes a non-zero number of bytes"),
        }
        Ok(())
    }

    /// What was said for the next option must have been for this one.
    fn check_next(&self, word: &OsStr) -> Done<()> {
        let modifies = word == "--perms" || word == "--size";
        if !modifies && self.next.size.is_some() {
            return self.fail("--size must be followed by --tmpfs");
        }
        if !modifies && self.next.perms.is_some() {
            return self.fail("--perms must be followed by an option that creates a file");
        }
        if word != "--overlay-src" && !self.next.lower.is_empty() {
            return self.fail(OVERLAY_SRC);
        }
        Ok(())
    }

    /// What bubblewrap finds out when everything is read.
    fn check(&self) -> Done<()> {
        let Options { unshare, disable_userns, hostname, as_pid_1, lock_files, .. } = &self.options;
        let Options { userns, userns_block_fd, info_fd, .. } = &self.options;
        if userns_block_fd.is_some() && !unshare.user {
            return self.fail("--userns-block-fd requires --unshare-user");
        }
        if userns_block_fd.is_some() && info_fd.is_none() {
            return self.fail("--userns-block-fd requires --info-fd");
        }
        if userns.is_some() && unshare.user {
            return self.fail("--userns not compatible --unshare-user");
        }
        if userns.is_some() && unshare.user_try {
            return self.fail("--userns not compatible --unshare-user-try");
        }
        if *disable_userns && !unshare.user {
            return self.fail("--disable-userns requires --unshare-user");
        }
        if *disable_userns && userns_block_fd.is_some() {
            return self.fail("--disable-userns is not compatible with  --userns-block-fd");
        }
        if hostname.is_some() && !unshare.uts {
            return self.fail("Specifying --hostname requires --unshare-uts");
        }
        if *as_pid_1 && !unshare.pid {
            return self.fail("Specifying --as-pid-1 requires --unshare-pid");
        }
        if *as_pid_1 && !lock_files.is_empty() {
            return self.fail("Specifying --as-pid-1 and --lock-file is not permitted");
        }
        Ok(())
    }

    fn unset(&mut self, variable: &OsStr) {
        self.options.environment.retain(|(name, _)| name != variable);
    }

    /// An option that is meant once: the last one wins.
    fn once(&mut self, name: &'static str) {
        if self.seen.contains(&name) {
            self.options.warnings.push(format!("Only the last {name} option will take effect"));
        }
        self.seen.push(name);
    }

    fn word(&self, words: &mut Words, name: &str, needs: &str) -> Done<OsString> {
        words.0.next().map_or_else(|| self.fail(format!("{name} {needs}")), Ok)
    }

    fn two(&self, words: &mut Words, name: &str) -> Done<[OsString; 2]> {
        match (words.0.next(), words.0.next()) {
            (Some(first), Some(second)) => Ok([first, second]),
            _ => self.fail(format!("{name} takes two arguments")),
        }
    }

    fn once_fd(&mut self, words: &mut Words, name: &'static str) -> Done<i32> {
        let fd = self.fd(words, name, "takes an argument")?;
        self.once(name);
        Ok(fd)
    }

    fn fd(&self, words: &mut Words, name: &str, needs: &str) -> Done<i32> {
        let word = self.word(words, name, needs)?;
        self.number(&word)
    }

    fn number(&self, word: &OsStr) -> Done<i32> {
        let number = word.to_str().and_then(|text| text.parse().ok()).filter(|number| *number >= 0);
        number.map_or_else(|| self.fail(format!("Invalid fd: {}", word.display())), Ok)
    }

    fn id(&mut self, words: &mut Words, name: &'static str, kind: &str) -> Done<u32> {
        let word = self.word(words, name, "takes an argument")?;
        self.once(name);
        let number = word.to_str().and_then(|text| text.parse().ok());
        number.map_or_else(|| self.fail(format!("Invalid {kind}: {}", word.display())), Ok)
    }

    fn octal(&self, word: &OsStr, name: &str) -> Done<u32> {
        let mode = word.to_str().and_then(|text| u32::from_str_radix(text, 8).ok()).filter(|mode| *mode <= 0o7777);
        mode.map_or_else(|| self.fail(format!("{name} takes an octal argument <= 07777")), Ok)
    }
}

const OVERLAY_SRC: &str =
    "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay";

fn access(name: &str) -> Access {
    match name {
        _ if name.starts_with("--ro-") => Access::Read,
        _ if name.starts_with("--dev-") => Access::Device,
        _ => Access::Write,
    }
}

fn typed(name: &str, words: &[&OsString]) -> String {
    let words = words.iter().map(|word| word.to_string_lossy());
    std::iter::once(name.into()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Done<Options> {
        let args = |_| Ok(b"--setenv\0A\x001\0--dir\0/from-file\0".to_vec());
        let env = vec![("HOME".into(), "/h".into()), ("A".into(), "0".into())];
        parse(words.iter().map(OsString::from).collect(), env, &args)
    }

    fn message(words: &[&str]) -> String {
        match read(words) {
            Err(Misuse::Message { text, .. }) => text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_bubblewraps() {
        assert_eq!(message(&["--bind", "/"]), "--bind takes two arguments");
        assert_eq!(message(&["--chdir"]), "--chdir takes one argument");
        assert_eq!(message(&["--foo", "x"]), "Unknown option --foo");
        assert_eq!(message(&["--info-fd", "x", "true"]), "Invalid fd: x");
        assert_eq!(message(&["--perms", "9", "true"]), "--perms takes an octal argument <= 07777");
        assert_eq!(
            message(&["--perms", "7", "--proc", "/", "x"]),
            "--perms must be followed by an option that creates a file"
        );
        assert_eq!(message(&["--size", "5", "--dir", "/x", "true"]), "--size must be followed by --tmpfs");
        assert_eq!(message(&["--overlay-src", "/", "true"]), OVERLAY_SRC);
        assert_eq!(message(&["--disable-userns", "true"]), "--disable-userns requires --unshare-user");
    }

    #[test]
    fn order_counts() {
        let options = read(&["--args", "3", "--unsetenv", "A", "--dir", "/x", "--", "--y"]).expect("options");
        assert_eq!(options.environment, [("HOME".into(), "/h".into())]);
        assert_eq!(
            options.steps.iter().map(|op| op.option.as_str()).collect::<Vec<_>>(),
            ["--dir /from-file", "--dir /x"]
        );
        assert_eq!(options.command, ["--y"]);
        let shared = read(&["--unshare-all", "--share-net", "true"]).expect("options").unshare;
        assert!(shared.pid && !shared.net);
    }

    #[test]
    fn modifiers_reach_the_next_option_only() {
        let options = read(&["--perms", "700", "--size", "9", "--tmpfs", "/t", "--tmpfs", "/u", "x"]).expect("options");
        assert_eq!(options.steps[0].perms, Some(0o700));
        assert_eq!(options.steps[0].what, What::Tmpfs { size: Some(9) });
        assert_eq!((options.steps[1].perms, &options.steps[1].what), (None, &What::Tmpfs { size: None }));
    }
}
