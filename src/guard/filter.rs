//! The seccomp program of a sandbox: what is refused outright, what the broker is asked about, what just runs.
//!
//! The program is a search tree over blocks, one for each number. No conditional jump leaves its block: their offsets have
//! 8 bits, and this way nothing can overflow, however long the table grows. For numbers that no block is about, the
//! program loads no argument, so the kernel finds out once that they are always allowed and never runs it for them again
//! (Linux 5.11, `seccomp_cache_prepare`). For that it goes through the program once for every number there is, which made
//! up a tenth of a millisecond of every launch as long as the blocks were a list.
//!
//! Arguments are compared by their low word alone where the kernel drops the rest (`int flags`, `umode_t mode`,
//! `unsigned int cmd`): rubbish in the high word must not get a call past the filter.
//!
//! **Modes.** A set-user-ID file would outlive the sandbox, and lend the caller's (maybe root's) identity to anybody.
//! `S_ISUID` is refused wherever a mode is set. `mkdir` is left alone, the kernel drops the bit there. `S_ISGID` is
//! refused for new files; `chmod` must allow it: directories use it for what it is good for, and a filter cannot tell
//! a directory. A set-group-ID file made with `chmod` lends the caller's own group, nothing more.
//! `openat2` has its mode in memory, where it can change after the broker looked: `strict`, which
//! every launch asks for, refuses the call.
#![forbid(unsafe_code)]

use super::calls::{Arch, CALLS, Call, Notify, Op, Place, oflag};
pub use crate::sys::seccomp::Instruction;

/// What a program must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct FilterSpec {
    pub arch: Arch,
    /// There are guarded directories: the listener is asked about calls that change paths.
    pub guarded: bool,
    /// Refuse (`ENOSYS`) what cannot be judged without a race: `openat2`, whose mode may become set-user-ID.
    pub strict: bool,
    /// There is no network: the listener hears of tries to reach one.
    pub offline: bool,
    /// Do not ask about a path or a descriptor that is named from [`PASSED`]: the fast path.
    pub preload: bool,
}

/// What a program answers to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Allow,
    /// Ask the listener.
    Notify,
    Errno(u16),
}

impl Answer {
    /// `SECCOMP_RET_*` with its data.
    const fn value(self) -> u32 {
        match self {
            Self::Allow => 0x7fff_0000,
            Self::Notify => 0x7fc0_0000,
            Self::Errno(errno) => 0x0005_0000 | errno as u32,
        }
    }
}

const EPERM: Answer = Answer::Errno(1);
const ENOSYS: Answer = Answer::Errno(38);
const EOPNOTSUPP: Answer = Answer::Errno(95);

const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;

/// Calls on an x86-64 kernel with this bit are x32's, with the same `arch` (`__X32_SYSCALL_BIT`).
const X32: u32 = 0x4000_0000;

/// `ioctl` requests that are refused: typing into the caller's terminal (`TIOCSTI`, `TIOCLINUX`), and removing btrfs
/// subvolumes anywhere on the file system, whatever the mount says (`BTRFS_IOC_SNAP_DESTROY`, `…_V2`).
const IOCTLS: [u32; 4] = [0x5412, 0x541C, 0x5000_940F, 0x5000_943F];

/// Numbers of `ioctl`, the one call here that has nothing to do with paths.
const fn ioctl(arch: Arch) -> u32 {
    match arch {
        Arch::X86_64 => 16,
        Arch::Aarch64 => 29,
    }
}

/// `io_uring_setup`, `io_uring_enter`, `io_uring_register`: a ring opens and renames without a call a filter could see.
const IO_URING: [u32; 3] = [425, 426, 427];

/// `add_key`, `request_key`, `keyctl`: the session keyring is inherited over every namespace, so sessions would see the
/// caller's keys (Kerberos tickets, say) and one another's.
const fn keys(arch: Arch) -> [u32; 3] {
    match arch {
        Arch::X86_64 => [248, 249, 250],
        Arch::Aarch64 => [217, 218, 219],
    }
}

/// An inner sandbox that trusted it would be bypassed by the broker, which acts from outside of it.
const LANDLOCK_CREATE_RULESET: u32 = 444;

include!("../../preload/page.rs");

/// Where a call of the preloaded library comes from: the address behind `syscall`, two bytes long, at the beginning of the
/// page (`seccomp_data.instruction_pointer`).
///
/// The library asks itself where the kernel says no. Everybody may map that page: asking is how a call is *granted*, and who
/// does not ask has what the kernel allows. What is refused without asking is refused from there too.
pub const PASSED: u64 = PAGE as u64 + 2;

/// The program for `seccomp(2)`.
#[must_use]
pub fn program(spec: &FilterSpec) -> Vec<Instruction> {
    let mut blocks = vec![(ioctl(spec.arch), ioctls())];
    for call in CALLS {
        let body = body(call, *spec);
        if let (Some(number), false) = (call.number(spec.arch), body.is_empty()) {
            blocks.push((number, body));
        }
    }
    blocks.extend(IO_URING.into_iter().chain(keys(spec.arch)).map(|number| (number, vec![ret(ENOSYS)])));
    if spec.guarded {
        blocks.push((LANDLOCK_CREATE_RULESET, vec![ret(EOPNOTSUPP)]));
    }
    blocks.sort_by_key(|(number, _)| *number);
    let mut program = other_abis(spec.arch);
    program.extend(search(&blocks));
    program
}

/// Blocks that are tried one after the other.
const LEAF: usize = 4;

/// Find the block of the number that is loaded, if there is one.
fn search(blocks: &[(u32, Vec<Instruction>)]) -> Vec<Instruction> {
    if blocks.len() <= LEAF {
        let mut leaf: Vec<_> = blocks.iter().flat_map(|(number, body)| block(*number, body)).collect();
        leaf.push(ret(Answer::Allow));
        return leaf;
    }
    let (below, rest) = blocks.split_at(blocks.len() / 2);
    let below = search(below);
    let mut tree = vec![jump(JGE, rest[0].0, 0, 1), jump_over(&below)];
    tree.extend(below);
    tree.extend(search(rest));
    tree
}

/// Refuse calls of other ABIs, whose numbers mean something else; leave the number loaded.
fn other_abis(arch: Arch) -> Vec<Instruction> {
    let mut start = vec![load(4), jump(JEQ, arch.audit(), 1, 0), ret(ENOSYS), load(0)];
    if arch == Arch::X86_64 {
        start.extend([jump(JGE, X32, 0, 1), ret(ENOSYS)]);
    }
    start
}

/// `body` for the calls with this number; it must end in an answer whatever it loads.
fn block(number: u32, body: &[Instruction]) -> Vec<Instruction> {
    let mut block = vec![jump(JEQ, number, 0, skip(body))];
    block.extend_from_slice(body);
    block
}

/// The offset over `body`.
fn skip(body: &[Instruction]) -> u8 {
    u8::try_from(body.len()).unwrap_or_else(|_| unreachable!("a block has a dozen instructions"))
}

fn ioctls() -> Vec<Instruction> {
    let mut body = vec![load_arg(1)];
    for request in IOCTLS {
        body.extend(answer_if(JEQ, request, EPERM));
    }
    body.push(ret(Answer::Allow));
    body
}

/// What happens to a call of the table; empty when nothing does.
fn body(call: &Call, spec: FilterSpec) -> Vec<Instruction> {
    if call.op == Op::OpenHow && spec.strict {
        return vec![ret(ENOSYS)];
    }
    let mut body = refused_modes(call);
    if spec.guarded && (spec.offline || !matches!(call.notify, Notify::Offline { .. })) {
        let asked = [ret(Answer::Notify)];
        if spec.preload && !matches!(call.place, Place::Address { .. }) {
            body.extend(unless_passed(&asked));
        }
        body.extend(asked);
        // First of all, because most files are opened to be read. What is refused is among what is asked about.
        body.splice(..0, condition(call.notify, skip(&body)));
    }
    if !body.is_empty() {
        body.push(ret(Answer::Allow));
    }
    body
}

/// Refuse what [`mode_mask`] gives.
fn refused_modes(call: &Call) -> Vec<Instruction> {
    let (Some(mode), Some(mask)) = (call.mode, mode_mask(call.op)) else { return Vec::new() };
    let mut refusal = vec![load_arg(mode)];
    refusal.extend(answer_if(JSET, mask, EPERM));
    let Some(flags) = call.flags.filter(|_| call.op == Op::Open) else { return refusal };
    // Without these bits the kernel does not look at the mode, and libraries pass what happens to be in the register.
    let mut body = vec![load_arg(flags), jump(JSET, oflag::CREAT | oflag::TMPFILE, 0, skip(&refusal))];
    body.extend(refusal);
    body
}

/// The mode bits that an operation may not set.
fn mode_mask(op: Op) -> Option<u32> {
    match op {
        Op::Open | Op::Creat | Op::Mknod => Some(S_ISUID | S_ISGID),
        Op::Chmod => Some(S_ISUID),
        _ => None,
    }
}

/// Jump over the `notice` that follows, and to the answer behind it, where a call comes from [`PASSED`].
fn unless_passed(notice: &[Instruction]) -> [Instruction; 4] {
    #[allow(clippy::cast_possible_truncation, reason = "the two words are what is compared")]
    let (high, low) = ((PASSED >> 32) as u32, PASSED as u32);
    [load(12), jump(JEQ, high, 0, 2), load(8), jump(JEQ, low, skip(notice), 0)]
}

/// Jump over `rest` unless the broker is to be asked.
fn condition(notify: Notify, rest: u8) -> Vec<Instruction> {
    match notify {
        Notify::Always => Vec::new(),
        Notify::Bits { arg, mask } => vec![load_arg(arg), jump(JSET, mask, 0, rest)],
        Notify::Above { arg, least } => vec![load_arg(arg), jump(JGT, least, 0, rest)],
        Notify::Offline { arg, values: [one, two, three] } => {
            vec![load_arg(arg), jump(JEQ, one, 2, 0), jump(JEQ, two, 1, 0), jump(JEQ, three, 0, rest)]
        }
    }
}

const JA: u16 = 0x05;
const JEQ: u16 = 0x15;
const JGT: u16 = 0x25;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
/// `BPF_LD | BPF_W | BPF_ABS`.
const LD: u16 = 0x20;
/// `BPF_RET | BPF_K`.
const RET: u16 = 0x06;

/// Load a word of `struct seccomp_data`.
const fn load(offset: u32) -> Instruction {
    Instruction { code: LD, jt: 0, jf: 0, k: offset }
}

/// Load the low word of an argument; both architectures are little endian.
fn load_arg(arg: usize) -> Instruction {
    load(16 + 8 * u32::try_from(arg).unwrap_or_else(|_| unreachable!("a call has six arguments")))
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Unconditional jumps have 32 bits.
fn jump_over(instructions: &[Instruction]) -> Instruction {
    let k =
        u32::try_from(instructions.len()).unwrap_or_else(|_| unreachable!("a program has at most 4,096 instructions"));
    Instruction { code: JA, jt: 0, jf: 0, k }
}

const fn answer_if(test: u16, k: u32, answer: Answer) -> [Instruction; 2] {
    [jump(test, k, 0, 1), ret(answer)]
}

const fn ret(answer: Answer) -> Instruction {
    Instruction { code: RET, jt: 0, jf: 0, k: answer.value() }
}

#[cfg(test)]
mod tests;
