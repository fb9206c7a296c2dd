//! Ways round the rules, one file a way, named after it.
//!
//! Each test first shows, where that is possible, that the same attack works outside of a sandbox: an attack that fails
//! by itself proves nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

#[path = "../support/mod.rs"]
mod support;

mod abstract_socket;
mod bwrap;
mod core_pattern;
mod device_directory;
mod device_mode;
mod device_node;
mod file_handle;
mod forged_page;
mod git_bare_root;
mod git_commondir;
mod git_config;
mod git_hooks;
mod git_nested_repository;
mod git_planted_gitfile;
mod git_planted_link;
mod git_rebase_todo;
mod git_replaced;
mod git_sequencer_strategy;
mod git_submodule_config;
mod git_worktree_commondir;
mod guarded;
mod host_moves_parent;
mod inherited_directory;
mod io_uring;
mod keyring;
mod kill_group;
mod nested_userns_mount;
mod other_abi;
mod other_case;
mod passed_descriptor;
mod proc_1_exe;
mod proc_1_fd;
mod proc_1_ptrace;
mod proc_1_root;
mod remount;
mod run_socket;
mod setuid_mode;
mod state_directory;
mod stdin_directory;
mod stdin_file_reopen;
mod stop_group;
mod sysrq;
mod tiocsti;
mod umount;
