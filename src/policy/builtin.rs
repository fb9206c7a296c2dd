//! The rules that hold if nobody says anything: the lowest layer.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Access, Backing, Context, GitMode, Network, Origin, Rule, Target, builtin_git};

/// What the built-in rules depend on besides the context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choices {
    pub(super) git: GitMode,
    pub(super) network: Network,
}

const EXECUTED: &str = "tools outside the sandbox execute or trust it";
const SECRET: &str = "holds secrets";
const SOCKETS: &str = "sockets of host services are out of reach, and connecting is not a write";
const RESOLVER: &str = "names are resolved with it";
const SHELL: &str = "shells outside the sandbox run it";
const JOB: &str = "background jobs keep temporary files there";
const TEMPORARY: &str = "belongs to the session";

/// What a command still finds in its private `/run`.
const RUN: &[(&str, &str)] = &[
    // Where /etc/resolv.conf leads to, by who manages it.
    ("systemd/resolve/stub-resolv.conf", RESOLVER),
    ("systemd/resolve/resolv.conf", RESOLVER),
    ("resolvconf/resolv.conf", RESOLVER),
    ("NetworkManager/resolv.conf", RESOLVER),
    ("NetworkManager/no-stub-resolv.conf", RESOLVER),
    ("connman/resolv.conf", RESOLVER),
    ("netconfig/resolv.conf", RESOLVER),
    // NixOS: every program is found through this link, every GPU driver through the others.
    ("current-system", "NixOS finds its programs there"),
    ("opengl-driver", "NixOS finds its GPU drivers there"),
    ("opengl-driver-32", "NixOS finds its GPU drivers there"),
];

/// Below the home directory: hidden by default.
pub const HIDDEN_AT_HOME: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".docker/config.json",
    ".netrc",
    ".git-credentials",
    ".pypirc",
    ".vault-token",
    ".password-store",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/op",
    ".local/share/keyrings",
    // Browsers keep cookies and passwords in their profiles.
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
];

/// Below the home directory: readable inside of what is hidden. Without it ssh asks about every host that is known.
pub const SHOWN_AT_HOME: &[&str] = &[".ssh/known_hosts"];

/// Below the home directory: what tools keep to be faster the next time.
const CACHES: &[&str] = &[
    ".cache",
    ".npm",
    ".yarn",
    ".bun/install/cache",
    ".local/share/pnpm",
    ".cargo/registry",
    ".cargo/git",
    "go/pkg",
    ".gradle/caches",
    ".m2/repository",
    ".nuget/packages",
    ".gem",
];

/// Variables that say where tools keep such things instead, and the places below.
const CACHE_VARIABLES: &[(&str, &[&str])] = &[
    ("XDG_CACHE_HOME", &[""]),
    ("CARGO_HOME", &["registry", "git"]),
    ("GOMODCACHE", &[""]),
    ("GOCACHE", &[""]),
    ("PIP_CACHE_DIR", &[""]),
    ("UV_CACHE_DIR", &[""]),
    ("npm_config_cache", &[""]),
];

/// Below the project, and below the home directory where that can be written: what tools outside execute or trust.
const TRUSTED: &[(&str, &str)] = &[
    // Agents: servers to start, hooks, instructions with permissions.
    (".mcp.json", EXECUTED),
    (".claude/settings.json", EXECUTED),
    (".claude/settings.local.json", EXECUTED),
    (".claude/hooks", EXECUTED),
    (".claude/commands", EXECUTED),
    (".claude/agents", EXECUTED),
    (".claude/skills", EXECUTED),
    (".codex", EXECUTED),
    (".agents", EXECUTED),
    (".cursor", EXECUTED),
    // Editors: tasks, launch configurations, interpreters.
    (".vscode", EXECUTED),
    (".idea", EXECUTED),
    // Tools that read their configuration from the directory they are in.
    (".envrc", EXECUTED),
    (".gitmodules", EXECUTED),
    (".gitconfig", EXECUTED),
    (".ripgreprc", EXECUTED),
    // Shells: a home directory can be a project.
    (".bashrc", SHELL),
    (".bash_profile", SHELL),
    (".bash_login", SHELL),
    (".bash_logout", SHELL),
    (".zshrc", SHELL),
    (".zprofile", SHELL),
    (".zshenv", SHELL),
    (".zlogin", SHELL),
    (".zlogout", SHELL),
    (".profile", SHELL),
];

/// Below the home directory where that can be written.
const TRUSTED_AT_HOME: &[(&str, &str)] = &[
    (".config/fish", SHELL),
    (".config/git", EXECUTED),
    (".config/systemd", EXECUTED),
    (".config/autostart", EXECUTED),
    (".local/bin", EXECUTED),
    (".bin", EXECUTED),
    ("bin", EXECUTED),
];

/// The rules of the lowest layer. Where two of them name one path, the stricter holds; who adds them sees to that. So a
/// project that is `/tmp` is private, one that is `~/.ssh` hidden.
///
/// The project's own `write` rule is left out where it would open what no project is: `/`, a directory above the home
/// directory (`/home`), and stockade's own state. A home directory may be a project: everything stricter below it
/// holds.
pub(super) fn rules(context: &Context, choices: &Choices) -> impl Iterator<Item = Rule> {
    let mut rules = vec![rule("/", Access::Read, None)];
    rules.extend(["/tmp", "/var/tmp"].map(|path| rule(path, Access::Private, Some(TEMPORARY))));
    rules.extend(run_rules(choices.network));
    rules.extend(context.job_dir().map(|dir| rule(dir.join("tmp"), Access::Private, Some(JOB))));
    rules.extend(secret_rules(context));
    if is_writable_project(context) {
        rules.push(rule(&context.project, Access::Write, None));
        rules.extend(project_rules(context, choices.git));
    }
    rules.into_iter()
}

/// Rules that are needed only where some rule lets a path below the home directory be written, or `opens` a directory of
/// the project's `.git` that is not there.
pub(super) fn late_rules(
    context: &Context,
    choices: &Choices,
    opens: impl Fn(&Path) -> bool,
) -> impl Iterator<Item = Rule> {
    let guards_git = choices.git == GitMode::Guarded && is_writable_project(context);
    let git = guards_git.then(|| builtin_git::late_rules(&context.project, context.git_lacks, opens));
    let home = Some(context.home.clone()).filter(|home| !home.as_os_str().is_empty());
    let at_home = home.into_iter().flat_map(|home| {
        let names = TRUSTED.iter().chain(TRUSTED_AT_HOME);
        names.map(move |(name, reason)| rule(home.join(name), Access::Read, Some(reason)))
    });
    at_home.chain(git.into_iter().flatten())
}

/// What `--caches` adds: tools find their caches filled, and what they write goes with the run.
pub(super) fn caches(context: &Context) -> Vec<Rule> {
    let at_home = CACHES.iter().map(|name| context.home.join(name)).filter(|_| !context.home.as_os_str().is_empty());
    let elsewhere = CACHE_VARIABLES.iter().flat_map(|(variable, names)| {
        let base = context.env.get(OsStr::new(variable)).map(PathBuf::from).filter(|base| base.is_absolute());
        base.into_iter().flat_map(|base| names.iter().map(move |name| base.join(name)))
    });
    let paths: BTreeSet<PathBuf> = at_home.chain(elsewhere).map(|path| path.components().collect()).collect();
    paths.into_iter().map(|path| Rule { origin: Origin::Flag("--caches".into()), ..cache(path) }).collect()
}

fn cache(path: PathBuf) -> Rule {
    rule(path, Access::Overlay, Some("a cache of the host's, which the run does not change"))
}

fn run_rules(network: Network) -> impl Iterator<Item = Rule> {
    // nscd answers with the host's view of names and connects to where it likes: only for who has the host's network.
    let nscd = (network == Network::Host).then_some(&("nscd", RESOLVER));
    let allowed = RUN.iter().chain(nscd);
    let allowed = allowed.map(|(name, reason)| rule(Path::new("/run").join(name), Access::Read, Some(reason)));
    std::iter::once(rule("/run", Access::Private, Some(SOCKETS))).chain(allowed)
}

fn secret_rules(context: &Context) -> Vec<Rule> {
    let mut rules = Vec::new();
    if !context.state.as_os_str().is_empty() {
        rules.push(rule(&context.state, Access::Hide, Some("stockade's own state")));
    }
    if !context.home.as_os_str().is_empty() {
        rules.extend(HIDDEN_AT_HOME.iter().map(|name| rule(context.home.join(name), Access::Hide, Some(SECRET))));
        rules.extend(SHOWN_AT_HOME.iter().map(|name| rule(context.home.join(name), Access::Read, None)));
    }
    rules
}

fn is_writable_project(context: &Context) -> bool {
    let Context { project, home, state, .. } = context;
    let is_above_home = project != home && home.starts_with(project);
    let is_state = !state.as_os_str().is_empty() && project.starts_with(state);
    // Where these are the project itself, the stricter rule holds and nothing in the project can be written.
    let is_temporary = ["/tmp", "/var/tmp", "/run"].iter().any(|path| project == Path::new(path));
    project.is_absolute() && project != Path::new("/") && !is_above_home && !is_state && !is_temporary
}

fn project_rules(context: &Context, git: GitMode) -> impl Iterator<Item = Rule> {
    let project = &context.project;
    let trusted = TRUSTED.iter().map(move |(name, reason)| rule(project.join(name), Access::Read, Some(reason)));
    let git = match (git, &context.linked) {
        (GitMode::Guarded, linked) => builtin_git::rules(project, linked.as_ref(), context.git_lacks),
        (GitMode::Closed, linked) => builtin_git::closed_rules(project, linked.as_ref()),
        (GitMode::Open, Some(linked)) => vec![rule(&linked.common, Access::Write, None)],
        (GitMode::Open, None) => Vec::new(),
    };
    trusted.chain(git)
}

/// A built-in rule for one path. That the path is absent is never an error.
pub(super) fn rule(path: impl Into<PathBuf>, access: Access, reason: Option<&'static str>) -> Rule {
    target_rule(Target::Path(path.into()), access, reason)
}

pub(super) fn target_rule(target: Target, access: Access, reason: Option<&'static str>) -> Rule {
    Rule {
        target,
        access,
        origin: Origin::BuiltIn,
        optional: true,
        reason: reason.map(Cow::Borrowed),
        plain: false,
        size: None,
        backing: Backing::default(),
        scope: None,
    }
}
