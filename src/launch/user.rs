//! `--user`: root becomes somebody else before anything else happens.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::sys::process;

/// Why root cannot become somebody else.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("--user needs root")]
    NotRoot,
    #[error("{0:?} is not a user in /etc/passwd (--user)")]
    Unknown(String),
    #[error("cannot become user {name:?} (--user)")]
    Refused { name: String, source: crate::sys::Error },
}

/// A line of `/etc/passwd` (`passwd(5)`).
struct Account {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
    shell: String,
}

/// Become the user `name` (or number) for good, with their groups; gives the environment that says so.
///
/// # Errors
/// Only root can, and only a user of `/etc/passwd`.
pub fn become_user(
    name: &str,
    mut env: BTreeMap<OsString, OsString>,
) -> Result<BTreeMap<OsString, OsString>, UserError> {
    if process::user().0 != 0 {
        return Err(UserError::NotRoot);
    }
    let account = find(name).ok_or_else(|| UserError::Unknown(name.to_owned()))?;
    process::become_user(account.uid, account.gid, &groups(&account))
        .map_err(|source| UserError::Refused { name: name.to_owned(), source })?;
    for variable in ["USER", "LOGNAME"] {
        env.insert(variable.into(), account.name.clone().into());
    }
    env.insert("HOME".into(), account.home.into());
    env.insert("SHELL".into(), account.shell.into());
    // Root's own directories of state and run time are not this user's.
    for variable in ["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        env.remove(std::ffi::OsStr::new(variable));
    }
    Ok(env)
}

fn find(name: &str) -> Option<Account> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().filter_map(account).find(|account| account.name == name || account.uid.to_string() == name)
}

fn account(line: &str) -> Option<Account> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1)?.to_owned();
    let shell = fields.next()?.to_owned();
    Some(Account { name, uid, gid, home, shell })
}

/// The user's groups by `/etc/group` (`group(5)`).
fn groups(account: &Account) -> Vec<u32> {
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let member = |line: &str| {
        let mut fields = line.split(':').skip(2);
        let gid = fields.next()?.parse().ok()?;
        fields.next()?.split(',').any(|name| name == account.name).then_some(gid)
    };
    let mut groups: Vec<u32> = text.lines().filter_map(member).collect();
    groups.push(account.gid);
    groups.dedup();
    groups
}
