//! Whole policies: layers, built-in rules, messages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

mod properties;

fn context() -> Context {
    Context {
        home: "/home/me".into(),
        cwd: "/home/me/project/sub".into(),
        project: "/home/me/project".into(),
        linked: None,
        git_lacks: GitLacks::default(),
        state: "/home/me/.local/state/stockade".into(),
        env: [("CACHE", "/var/cache/me")].map(|(name, value)| (name.into(), value.into())).into(),
    }
}

fn sources() -> Sources {
    Sources { context: context(), ..Sources::default() }
}

fn flag(access: Access, value: &str) -> Flag {
    Flag { access, value: value.into() }
}

fn with_flags(flags: &[(Access, &str)]) -> Result<Policy, Error> {
    let flags = flags.iter().map(|(access, value)| flag(*access, value)).collect();
    load(&Sources { flags, ..sources() })
}

fn judge(policy: &Policy, path: &str) -> (Access, bool) {
    let judgement = policy.rules.judge(Path::new(path));
    (judgement.access, judgement.above_stricter)
}

fn access(policy: &Policy, path: &str) -> Access {
    judge(policy, path).0
}

/// Loads policy files with these texts, one layer each. Errors call them `0.toml`, `1.toml`, …
fn with_files(texts: &[&str]) -> Result<Policy, Error> {
    let directory = tempfile::tempdir().expect("a directory");
    let context = Context { cwd: directory.path().canonicalize().expect("a real directory"), ..context() };
    let name = |index: usize| PathBuf::from(format!("{index}.toml"));
    for (index, text) in texts.iter().enumerate() {
        fs::write(directory.path().join(name(index)), text).expect("written");
    }
    load(&Sources { context, files: (0..texts.len()).map(name).collect(), ..sources() })
}

/// The message and the excerpt of what is wrong with a policy file.
fn fault(text: &str) -> String {
    let error = with_files(&[text]).expect_err("an error");
    format!("{error}\n{}", error.excerpt().unwrap_or_default())
}

mod built_in {
    use super::*;

    #[test]
    fn the_usual_places() {
        let policy = load(&sources()).expect("a policy");
        for (path, expected) in [
            ("/", Access::Read),
            ("/etc/passwd", Access::Read),
            ("/tmp/x", Access::Private),
            ("/run/docker.sock", Access::Private),
            ("/run/systemd/resolve/stub-resolv.conf", Access::Read),
            ("/run/nscd/socket", Access::Private),
            ("/home/me/.ssh/id_ed25519", Access::Hide),
            ("/home/me/.ssh/known_hosts", Access::Read),
            ("/home/me/.bashrc", Access::Read),
            ("/home/me/.local/state/stockade/x", Access::Hide),
            ("/home/me/project/src/main.rs", Access::Write),
            ("/home/me/project/.claude/settings.local.json", Access::Read),
            ("/home/me/project/.git/config", Access::Read),
            ("/home/me/project/.git/config.lock", Access::Read),
            ("/home/me/project/.git/hooks/pre-commit", Access::Read),
            ("/home/me/project/.git/index.lock", Access::Write),
            ("/home/me/project/.git/refs/heads/x.lock", Access::Write),
            ("/home/me/project/.git/FETCH_HEAD", Access::Write),
            ("/home/me/project/.git/worktrees/w/HEAD", Access::Write),
            ("/home/me/project/.git/worktrees/w/commondir", Access::Read),
        ] {
            assert_eq!(access(&policy, path), expected, "{path}");
        }
        assert!(policy.rules.is_free(Path::new("/home/me/project/.git/objects")));
        assert!(policy.rules.is_free(Path::new("/home/me/project/src")));
        assert!(!policy.rules.is_free(Path::new("/home/me/project")));
        assert!(!policy.rules.is_free(Path::new("/home/me/project/.claude")));
        assert_eq!(judge(&policy, "/home/me/project/.claude"), (Access::Write, true));
        assert_eq!(judge(&policy, "/home/me/project/.git"), (Access::Read, false));
    }

    #[test]
    fn what_git_does_not_have_needs_no_rules_until_somebody_opens_it() {
        let git_lacks = GitLacks { worktrees: true, modules: true };
        let lacking = |flags: &[(Access, &str)]| {
            let flags = flags.iter().map(|(access, value)| flag(*access, value)).collect();
            load(&Sources { flags, context: Context { git_lacks, ..context() }, ..sources() }).expect("a policy")
        };
        let git = "/home/me/project/.git";
        let judged = |policy: &Policy, names: [&str; 4]| names.map(|name| access(policy, &format!("{git}/{name}")));
        let names = ["worktrees/w/HEAD", "worktrees/w/rebase-merge/x", "modules/m/HEAD", "modules/m/config"];
        let (read, write) = (Access::Read, Access::Write);
        let closed = lacking(&[]);
        assert_eq!(judged(&closed, names), [read; 4]);
        assert!(closed.rules.all().len() + 100 < load(&sources()).expect("a policy").rules.all().len());
        for opened in ["worktrees", "worktrees/w", "worktrees/*/gitdir"] {
            let opened = format!("{git}/{opened}");
            assert_eq!(judged(&lacking(&[(write, &opened)]), names), [write, read, read, read], "{opened}");
        }
        assert_eq!(judged(&lacking(&[(write, "**/gitdir")]), names), [write, read, write, read]);
        let opened = lacking(&[(Access::Write, "/home/me/project/.git/modules/m")]);
        assert_eq!(judged(&opened, names), [read, read, write, write]);
        assert_eq!(access(&opened, &format!("{git}/modules/m/sequencer/opts")), read);
    }

    #[test]
    fn git_and_network_choose() {
        let host = (Network::Host, Origin::Flag("--network host".to_owned()));
        let open = (GitMode::Open, Origin::Flag("--git open".to_owned()));
        let policy = load(&Sources { network: Some(host), git: Some(open), ..sources() }).expect("a policy");
        assert_eq!(access(&policy, "/run/nscd/socket"), Access::Read);
        assert!(policy.rules.is_free(Path::new("/home/me/project/.git")));
    }

    #[test]
    fn a_closed_git_stays_read_only_wherever_the_repository_is() {
        let git = Some((GitMode::Closed, Origin::Flag("--git closed".to_owned())));
        let common = PathBuf::from("/home/me/main/.git");
        let linked = Some(Linked { own: common.join("worktrees/w"), common });
        let write = Flag { access: Access::Write, value: "/home/me/main".into() };
        let context = Context { linked, ..context() };
        let policy = load(&Sources { context, git, flags: vec![write], ..sources() }).expect("a policy");
        for path in
            ["project/.git", "project/.git/objects/a", "project/HEAD", "main/.git/refs", "main/.git/worktrees/w/HEAD"]
        {
            assert_eq!(access(&policy, &format!("/home/me/{path}")), Access::Read, "{path}");
        }
        assert_eq!(access(&policy, "/home/me/project/f"), Access::Write);
        assert_eq!(access(&policy, "/home/me/main/f"), Access::Write);
    }

    fn in_project(project: &str) -> Policy {
        let context = Context { project: project.into(), cwd: project.into(), ..context() };
        load(&Sources { context, ..sources() }).expect("a policy")
    }

    #[test]
    fn odd_projects() {
        for (project, expected) in [
            ("/", Access::Read),
            ("/home", Access::Read),
            ("/home/me", Access::Write),
            ("/tmp", Access::Private),
            ("/run", Access::Private),
            ("/tmp/project", Access::Write),
            ("/home/me/.ssh", Access::Hide),
            ("/home/me/.local/state/stockade/here", Access::Hide),
            ("/home/me/.local/state", Access::Write),
        ] {
            let policy = in_project(project);
            assert_eq!(access(&policy, project), expected, "{project}");
            assert_eq!(access(&policy, "/home/me/.local/state/stockade"), Access::Hide, "{project}");
        }
    }

    #[test]
    fn a_home_that_can_be_written_keeps_what_is_trusted() {
        let opened = with_flags(&[(Access::Write, "~"), (Access::Write, "~/.local/bin")]).expect("a policy");
        for policy in [in_project("/home/me"), opened] {
            for name in [".bashrc", ".config/systemd/user/x.service", ".config/git/config", ".claude/settings.json"] {
                assert_eq!(access(&policy, &format!("/home/me/{name}")), Access::Read, "{name}");
            }
            assert_eq!(access(&policy, "/home/me/.aws/credentials"), Access::Hide);
            assert!(!policy.rules.is_free(Path::new("/home/me")));
            assert_eq!(judge(&policy, "/home/me/.config"), (Access::Write, true));
        }
        let opened = with_flags(&[(Access::Write, "~/.local/bin")]).expect("a policy");
        assert_eq!(access(&opened, "/home/me/.local/bin/tool"), Access::Write);
    }
}

mod layers {
    use super::*;

    #[test]
    fn a_later_layer_replaces_whatever_the_access() {
        let texts = ["[files]\nwrite = ['/srv']\nhide = ['~/.claude']", "[files]\nread = ['/srv/']"];
        let policy = with_files(&texts).expect("a policy");
        assert_eq!(access(&policy, "/srv/x"), Access::Read);
        let (old, index) = &policy.rules.replaced()[0];
        assert_eq!((old.access, old.origin.to_string().as_str()), (Access::Write, "0.toml:2"));
        assert_eq!(policy.rules.all()[*index].origin.to_string(), "1.toml:2");
        assert!(
            !policy.rules.judge(Path::new("/")).above_stricter || access(&policy, "/home/me/.claude") == Access::Hide
        );
    }

    #[test]
    fn a_replaced_rule_leaves_no_trace_above() {
        let texts = ["[files]\nwrite = ['/srv']\nread = ['/srv/a']", "[files]\nwrite = ['/srv/a']"];
        let policy = with_files(&texts).expect("a policy");
        assert!(policy.rules.is_free(Path::new("/srv")));
    }

    #[test]
    fn the_same_twice_is_fine_and_flags_are_one_layer() {
        assert!(with_flags(&[(Access::Write, "/srv"), (Access::Write, "/srv/")]).is_ok());
        let error = with_flags(&[(Access::Write, "/srv"), (Access::Hide, "/srv")]).expect_err("an error");
        assert_eq!(
            error.to_string(),
            "--hide /srv: `/srv` is hide here and write in --write /srv; one layer cannot say both"
        );
        assert_eq!(error.excerpt(), None);
    }

    #[test]
    fn built_in_rules_can_be_replaced() {
        let policy = with_flags(&[
            (Access::Write, "$PROJECT/.envrc"),
            (Access::Read, "~/.aws"),
            (Access::Hide, "/"),
            (Access::Read, "/usr"),
        ])
        .expect("a policy");
        assert_eq!(access(&policy, "/home/me/project/.envrc"), Access::Write);
        assert_eq!(access(&policy, "/home/me/.aws"), Access::Read);
        assert_eq!(access(&policy, "/etc"), Access::Hide);
        assert_eq!(access(&policy, "/usr/bin"), Access::Read);
    }

    #[test]
    fn nothing_opens_the_state_directory() {
        for (access, value) in [
            (Access::Write, "~/.local/state/stockade"),
            (Access::Read, "~/.local/state/stockade/m/sessions"),
            (Access::Private, "~/.local/state/stockade"),
            (Access::Write, "~/.local/state/stockade/*"),
        ] {
            assert!(with_flags(&[(access, value)]).is_err(), "{access} {value}");
        }
        let error = with_flags(&[(Access::Write, "~/.local/state/stockade")]).expect_err("an error");
        assert_eq!(
            error.to_string(),
            "--write ~/.local/state/stockade: /home/me/.local/state/stockade belongs to stockade's own state, which no \
             rule may open"
        );
        let policy = with_flags(&[
            (Access::Write, "~/.local/state"),
            (Access::Write, "~/.local/*/stockade"),
            (Access::Write, "**/record.json"),
            (Access::Hide, "~/.local/state/stockade"),
        ]);
        let policy = policy.expect("a policy");
        assert_eq!(access(&policy, "/home/me/.local/state/stockade/record.json"), Access::Hide);
    }

    #[test]
    fn other_settings() {
        let policy = with_files(&[
            "git = 'open'\nstrict = true\n[network]\nmode = 'host'\n[session]\nid-from = ['A']\nidle = '2h'",
            "git = 'guarded'\n[environment]\nset = { X = '1', Y = '2' }\nunset = ['U*']\nkeep = ['A']",
            "[environment]\nset = { X = '3' }\nunset = ['V']\nkeep = ['B']\n[session]\nid-from = ['B']",
        ])
        .expect("a policy");
        assert_eq!(policy.git.value, GitMode::Guarded);
        assert_eq!(policy.git.origin.to_string(), "1.toml:1");
        assert_eq!((policy.network.value, policy.strict.value), (Network::Host, true));
        assert_eq!(policy.session.id_from, ["A", "B"]);
        assert_eq!(policy.session.idle, Duration::from_secs(7200));
        assert_eq!(policy.environment.set, [("Y".into(), "2".into()), ("X".into(), "3".into())]);
        assert_eq!(policy.environment.unset, ["U*", "V"]);
        assert_eq!(policy.environment.keep, Some(vec!["B".to_owned()]));
    }

    #[test]
    fn elements_that_are_tables() {
        let policy = with_files(&[
            "[files]\noverlay = [{ path = '~/.cache', size = '1G', reason = 'caches' }, { path = '/d', backing = 'disk' }]\n\
             read = [{ path = '$UNSET/x', optional = true }, 'here', '${UNSET:-/srv}/x']",
        ])
        .expect("a policy");
        let rule = policy.rules.judge(Path::new("/home/me/.cache/x")).rule;
        assert_eq!((rule.access, rule.size, rule.backing), (Access::Overlay, Some(1 << 30), Backing::Memory));
        assert_eq!(policy.rules.judge(Path::new("/d/x")).rule.backing, Backing::Disk);
        assert_eq!(rule.reason.as_deref(), Some("caches"));
        let here = policy.context.cwd.join("here");
        assert!(policy.rules.names().any(|(path, _)| path == here));
        assert!(policy.rules.names().any(|(path, _)| path == Path::new("/srv/x")));
    }

    #[test]
    fn what_holds_for_all_overlays() {
        let policy =
            with_files(&["[overlay]\nsize = '1M'\nscope = 'session'\n[files]\nredirect = true\n", "[overlay]\n"]);
        let policy = policy.expect("a policy");
        assert_eq!((policy.overlay.size, policy.overlay.scope), (Some(1 << 20), super::super::Scope::Session));
        assert!(policy.redirect.value);
        for text in ["size = '1M', backing = 'disk'", "size = '1M', scope = 'session'"] {
            let error =
                with_files(&[&format!("[files]\noverlay = [{{ path = '/x', {text} }}]")]).expect_err("an error");
            assert!(error.to_string().contains("cannot be limited"), "{error}");
        }
    }

    #[test]
    fn caches_are_overlays_unless_a_flag_says_otherwise() {
        let flags = vec![Flag { access: Access::Write, value: "/home/me/.npm".into() }];
        let policy = load(&Sources { flags, caches: true, ..sources() }).expect("a policy");
        let access = |path: &str| policy.rules.judge(Path::new(path)).access;
        assert_eq!(access("/home/me/.cache/pip"), Access::Overlay);
        assert_eq!(access("/home/me/.npm/x"), Access::Write);
    }

    #[test]
    fn a_config_may_be_absent_and_a_named_file_not() {
        let absent = PathBuf::from("/nonexistent/config.toml");
        assert!(load(&Sources { config: Some(absent.clone()), ..sources() }).is_ok());
        let error = load(&Sources { files: vec![absent], ..sources() }).expect_err("an error");
        assert_eq!(error.to_string(), "cannot read policy file /nonexistent/config.toml");
    }
}

mod names {
    use super::*;

    fn index(policy: &Policy, path: &str) -> usize {
        policy.rules.judge(Path::new(path)).index
    }

    #[test]
    fn a_rule_holds_by_every_name() {
        let mut policy = with_flags(&[(Access::Read, "$PROJECT/link")]).expect("a policy");
        assert!(policy.rules.is_free(Path::new("/home/me/project/real")));
        let link = index(&policy, "/home/me/project/link");
        assert!(policy.rules.add_name(link, "/home/me/project/real/file".into()));
        assert_eq!(judge(&policy, "/home/me/project/real"), (Access::Write, true));
        assert_eq!(index(&policy, "/home/me/project/real/file"), link);
        assert!(policy.rules.names().any(|name| name == (Path::new("/home/me/project/real/file"), link)));
    }

    #[test]
    fn the_stricter_of_two_rules_holds_at_a_name() {
        let flags = [(Access::Read, "/a"), (Access::Write, "/b"), (Access::Hide, "/c")];
        let mut policy = with_flags(&flags).expect("a policy");
        let [a, b, c] = ["/a", "/b", "/c"].map(|path| index(&policy, path));
        policy.rules.add_name(a, "/b".into());
        assert_eq!((index(&policy, "/b"), access(&policy, "/b")), (a, Access::Read));
        policy.rules.add_name(b, "/c".into());
        assert_eq!((index(&policy, "/c"), access(&policy, "/c")), (c, Access::Hide));
    }

    #[test]
    fn no_name_opens_the_state_directory() {
        let mut policy = with_flags(&[(Access::Write, "/a")]).expect("a policy");
        let a = index(&policy, "/a");
        assert!(!policy.rules.add_name(a, "/home/me/.local/state/stockade/x".into()));
        assert_eq!(access(&policy, "/home/me/.local/state/stockade/x"), Access::Hide);
    }
}

mod patterns {
    use super::*;

    #[test]
    fn the_deepest_wins_and_a_plain_path_before_a_pattern() {
        let policy = with_flags(&[
            (Access::Write, "/w"),
            (Access::Read, "**/x/y"),
            (Access::Write, "/w/x/y"),
            (Access::Write, "/w/a/x/y/z"),
        ])
        .expect("a policy");
        assert_eq!(access(&policy, "/w/x/y"), Access::Write);
        assert_eq!(access(&policy, "/w/a/x/y"), Access::Read);
        assert_eq!(access(&policy, "/w/a/x/y/q"), Access::Read);
        assert_eq!(access(&policy, "/w/a/x/y/z/q"), Access::Write);
    }

    #[test]
    fn only_parts_of_a_pattern_must_stay() {
        let policy = with_flags(&[(Access::Write, "/w"), (Access::Read, "**/x/y")]).expect("a policy");
        assert_eq!(judge(&policy, "/w/a"), (Access::Write, false));
        assert_eq!(judge(&policy, "/w/a/x"), (Access::Write, true));
        assert_eq!(judge(&policy, "/w/a/x/b"), (Access::Write, false));
        assert!(!policy.rules.is_free(Path::new("/w/a")));
    }

    #[test]
    fn a_later_layer_wins_then_the_stricter() {
        let policy =
            with_files(&["[files]\nwrite = ['/w']\nread = ['/w/*.a', '/w/b*']", "[files]\nwrite = ['/w/b.*']"]);
        let policy = policy.expect("a policy");
        assert_eq!(access(&policy, "/w/b.a"), Access::Write);
        let policy = with_flags(&[(Access::Write, "/w/a*"), (Access::Read, "/w/*a")]).expect("a policy");
        assert_eq!(access(&policy, "/w/aa"), Access::Read);
    }

    #[test]
    fn patterns_end_at_what_is_not_the_hosts() {
        let flags = [
            (Access::Write, "**/x"),
            (Access::Read, "**/keep"),
            (Access::Write, "/tmp/p"),
            (Access::Read, "~/.aws/*.pub"),
        ];
        let policy = with_flags(&flags).expect("a policy");
        assert_eq!(access(&policy, "/home/me/.ssh/x"), Access::Hide);
        assert_eq!(access(&policy, "/home/me/.aws/a.pub"), Access::Read);
        assert_eq!(access(&policy, "/tmp/keep"), Access::Private);
        assert_eq!(access(&policy, "/tmp/p/keep"), Access::Read);
        assert!(!policy.rules.is_free(Path::new("/tmp/p")));
    }

    /// Found by the properties: below the inner plain rule, the pattern from above has its say again.
    #[test]
    fn a_pattern_that_comes_back_further_down_keeps_a_directory_from_being_free() {
        let flags =
            [(Access::Overlay, "/a"), (Access::Write, "/a/*"), (Access::Write, "/a/a/a"), (Access::Read, "/**")];
        let policy = with_flags(&flags).expect("a policy");
        assert_eq!(access(&policy, "/a/a"), Access::Write);
        assert_eq!(access(&policy, "/a/a/a/a"), Access::Read);
        assert!(!policy.rules.is_free(Path::new("/a/a")));
    }

    #[test]
    fn a_move_must_not_leave_a_pattern() {
        let flags =
            [(Access::Write, "/p"), (Access::Write, "/q"), (Access::Read, "/p/**/x"), (Access::Read, "**/a/**/y")];
        let policy = with_flags(&flags).expect("a policy");
        let follow = |from, to| policy.rules.patterns_follow(Path::new(from), Path::new(to));
        assert!(follow("/p/one", "/p/two/one"));
        assert!(!follow("/p/one", "/q/one"));
        assert!(follow("/q/one", "/p/one"));
        assert!(!follow("/q/a/one", "/q/b"));
        assert!(!follow("/", "/q"));
    }

    #[test]
    fn contradictions_are_found_by_meaning() {
        let error = with_flags(&[(Access::Read, "/w/*"), (Access::Write, "/w//./*")]).expect_err("an error");
        assert_eq!(
            error.to_string(),
            "--write /w//./*: `/w//./*` is write here and read in --read /w/*; one layer cannot say both"
        );
    }
}

mod messages {
    use super::*;

    #[test]
    fn have_a_place_and_a_caret() {
        for (text, expected) in [
            (
                "[files]\nwrite = [\"a\"]\n\thidden = [\"b\"]\n",
                "0.toml:3:2: unknown field `hidden`, expected one of `hide`, `read`, `overlay`, `private`, `write`, `redirect`\n\
                 3 | \thidden = [\"b\"]\n  | \t^",
            ),
            (
                "[files]\nwrite = [\"é\", 5]\n",
                "0.toml:2:15: invalid type: integer `5`, expected a path or a table with `path`\n\
                 2 | write = [\"é\", 5]\n  |               ^",
            ),
            (
                "[network]\nmode = \"all\"\n",
                "0.toml:2:8: unknown variant `all`, expected `none` or `host`\n2 | mode = \"all\"\n  |        ^",
            ),
            (
                "[files]\nwrite = [\"/x\"]\n\nread = [\"/x/\"]\n",
                "0.toml:4:9: `/x` is read here and write in 0.toml:2:10; one layer cannot say both\n\
                 4 | read = [\"/x/\"]\n  |         ^",
            ),
            (
                "[files]\noverlay = [{ path = \"/x\", size = \"1X\" }]\n",
                "0.toml:2:34: invalid value: string \"1X\", expected a size in bytes or one such as \"512M\" or \"1G\"\n\
                 2 | overlay = [{ path = \"/x\", size = \"1X\" }]\n  |                                  ^",
            ),
            (
                "[session]\nidle = \"soon\"\n",
                "0.toml:2:8: bad duration `soon`, expected one such as `7d` or `12h`\n2 | idle = \"soon\"\n  |        ^",
            ),
            (
                "[files]\nhide = [\"*.key\"]\n",
                "0.toml:2:9: hide takes no patterns, only read and write do; write `\\` before a character that is part \
                 of a name\n2 | hide = [\"*.key\"]\n  |         ^",
            ),
            (
                "[files]\nread = [\"$UNSET/x\"]\n",
                "0.toml:2:9: variable UNSET is not set; give it a default, `${UNSET:-/some/path}`, or make the rule \
                 optional\n2 | read = [\"$UNSET/x\"]\n  |         ^",
            ),
            (
                "[files]\nread = [{ path = \"/x\", size = 1 }]\n",
                "0.toml:2:9: `size` is for overlay rules only\n2 | read = [{ path = \"/x\", size = 1 }]\n  |         ^",
            ),
            (
                "[files]\nread = [{ optional = true }]\n",
                "0.toml:2:9: missing field `path`\n2 | read = [{ optional = true }]\n  |         ^",
            ),
            (
                "[environment]\nset = { \"A=B\" = \"x\" }\n",
                "0.toml:2:9: `A=B` cannot be the name of an environment variable\n\
                 2 | set = { \"A=B\" = \"x\" }\n  |         ^",
            ),
            (
                "strict = 1\n",
                "0.toml:1:10: invalid type: integer `1`, expected a boolean\n1 | strict = 1\n  |          ^",
            ),
            ("[files\n", "0.toml:1:7: unclosed table, expected `]`\n1 | [files\n  |       ^"),
        ] {
            assert_eq!(fault(text), expected, "{text}");
        }
    }

    #[test]
    fn long_lines_are_cut() {
        let text = format!("[files]\nread = [{} 5]\n", "'/some/path', ".repeat(100));
        let fault = fault(&text);
        let lines: Vec<_> = fault.lines().collect();
        assert!(lines[1].len() <= 170, "{fault}");
        let caret = lines[2].find('^').expect("a caret");
        assert_eq!(lines[1].as_bytes()[caret], b'5');
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("1", Some(1)),
            ("2K", Some(2048)),
            ("3m", Some(3 << 20)),
            ("1T", Some(1 << 40)),
            ("0", None),
            ("", None),
            ("G", None),
            ("-1G", None),
            ("1.5G", None),
            ("1GB", None),
            ("99999999999T", None),
        ] {
            assert_eq!(file::parse_size(text), expected, "{text}");
        }
    }
}
