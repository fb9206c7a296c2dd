//! The program against what it should answer, told a second time in plain Rust, through a small BPF interpreter.

#![allow(clippy::cast_possible_truncation, reason = "words of arguments are what is tested")]

use proptest::prelude::*;

use super::*;

/// `struct seccomp_data`.
#[derive(Debug, Clone, Copy)]
struct Data {
    nr: u32,
    arch: u32,
    from: u64,
    args: [u64; 6],
}

/// Where calls come from that are not the fast path's.
const ELSEWHERE: u64 = 0x7fff_1234_5678;

impl Data {
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.nr,
            4 => self.arch,
            8 => self.from as u32,
            12 => (self.from >> 32) as u32,
            16..64 if offset.is_multiple_of(4) => {
                let arg = self.args[(offset as usize - 16) / 8];
                if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
            }
            _ => panic!("no word at {offset}"),
        }
    }
}

/// What the kernel does with a program; `loads` counts the arguments it looked at.
fn run(program: &[Instruction], data: &Data) -> (u32, usize) {
    let (mut at, mut acc, mut loads) = (0, 0, 0);
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let holds = match code {
            LD => {
                acc = data.word(k);
                loads += usize::from(k >= 16);
                continue;
            }
            RET => return (k, loads),
            JA => {
                at += k as usize;
                continue;
            }
            JEQ => acc == k,
            JGT => acc > k,
            JGE => acc >= k,
            JSET => acc & k != 0,
            _ => panic!("unknown instruction {code:#x}"),
        };
        at += usize::from(if holds { jt } else { jf });
    }
}

/// The same judgement in words.
fn expected(spec: FilterSpec, data: &Data) -> Answer {
    if data.arch != spec.arch.audit() || (spec.arch == Arch::X86_64 && data.nr >= X32) {
        return ENOSYS;
    }
    if data.nr == ioctl(spec.arch) {
        let refused = [0x5412, 0x541C, 0x5000_940F, 0x5000_943F].contains(&(data.args[1] as u32));
        return if refused { EPERM } else { Answer::Allow };
    }
    let keys = if spec.arch == Arch::X86_64 { 248..=250 } else { 217..=219 };
    if (425..=427).contains(&data.nr) || keys.contains(&data.nr) {
        return ENOSYS;
    }
    if data.nr == 444 && spec.guarded {
        return EOPNOTSUPP;
    }
    match CALLS.iter().find(|call| call.number(spec.arch) == Some(data.nr)) {
        Some(call) => expected_of(call, spec, data.from, &data.args.map(|arg| arg as u32)),
        None => Answer::Allow,
    }
}

fn expected_of(call: &Call, spec: FilterSpec, from: u64, args: &[u32; 6]) -> Answer {
    let refused = match call.name {
        "open" => args[1] & (0o100 | 0o20_000_000) != 0 && args[2] & 0o6000 != 0,
        "openat" => args[2] & (0o100 | 0o20_000_000) != 0 && args[3] & 0o6000 != 0,
        "creat" | "mknod" => args[1] & 0o6000 != 0,
        "mknodat" => args[2] & 0o6000 != 0,
        "chmod" | "fchmod" => args[1] & 0o4000 != 0,
        "fchmodat" | "fchmodat2" => args[2] & 0o4000 != 0,
        _ => false,
    };
    let asked = match call.name {
        "open" => args[1] & (0o3 | 0o100 | 0o1000 | 0o20_000_000) != 0,
        "openat" => args[2] & (0o3 | 0o100 | 0o1000 | 0o20_000_000) != 0,
        "access" => args[1] & 2 != 0,
        "faccessat" | "faccessat2" => args[2] & 2 != 0,
        "bind" => args[2] > 2,
        "connect" => spec.offline && [16, 28, 128].contains(&args[2]),
        _ => true,
    };
    let has_address = matches!(call.place, Place::Address { .. });
    let passed = spec.preload && from == 0x7000_0002 && !has_address;
    match () {
        () if call.name == "openat2" && spec.strict => ENOSYS,
        () if refused => EPERM,
        () if asked && spec.guarded && !passed => Answer::Notify,
        () => Answer::Allow,
    }
}

fn specs() -> impl Iterator<Item = FilterSpec> {
    let all = (0..32).map(|bits| FilterSpec {
        arch: if bits & 1 == 0 { Arch::X86_64 } else { Arch::Aarch64 },
        guarded: bits & 2 != 0,
        strict: bits & 4 != 0,
        preload: bits & 8 != 0,
        offline: bits & 16 != 0,
    });
    // Without a listener it makes no difference.
    all.filter(|spec| spec.guarded || !spec.offline)
}

/// Words that matter somewhere.
const WORDS: [u64; 25] = [
    0,
    1,
    2,
    3,
    4,
    16,
    28,
    128,
    0o100,
    0o101,
    0o1000,
    0o1101,
    0o20_200_002,
    0o2755,
    0o4755,
    0o6755,
    0o644,
    0o100_4755,
    0x5412,
    0x541C,
    0x5000_940F,
    0x5000_943F,
    0xFFFF_FFFF,
    0xFFFF_FFFF_0000_0000,
    0xFFFF_FFFF_0000_5412,
];

fn check(spec: FilterSpec, program: &[Instruction], data: &Data) {
    assert_eq!(run(program, data).0, expected(spec, data).value(), "{spec:?} {data:x?}");
}

#[test]
fn every_call_with_every_word_that_matters() {
    for spec in specs() {
        let program = program(&spec);
        for nr in (0..600).chain([X32, X32 + 1, X32 + 257, u32::MAX]) {
            for (i, &a) in WORDS.iter().enumerate() {
                for (j, &b) in WORDS.iter().enumerate() {
                    let args = [WORDS[(i + j) % WORDS.len()], a, b, a, b, 0];
                    check(spec, &program, &Data { nr, arch: spec.arch.audit(), from: ELSEWHERE, args });
                    check(
                        spec,
                        &program,
                        &Data { nr, arch: spec.arch.audit(), from: ELSEWHERE, args: [0, a, a, b, b, 0] },
                    );
                }
            }
        }
    }
}

#[test]
fn other_abis_are_refused_whatever_they_call() {
    for spec in specs() {
        let program = program(&spec);
        for arch in [0x4000_0003, 0x4000_0028, 0, Arch::X86_64.audit(), Arch::Aarch64.audit()] {
            for nr in 0..600 {
                check(spec, &program, &Data { nr, arch, from: PASSED, args: [0; 6] });
            }
        }
    }
}

#[test]
fn a_high_word_does_not_get_a_call_past() {
    let spec = FilterSpec { arch: Arch::X86_64, guarded: true, strict: false, preload: true, offline: true };
    let program = program(&spec);
    let ask = |nr, args| run(&program, &Data { nr, arch: spec.arch.audit(), from: ELSEWHERE, args }).0;
    assert_eq!(ask(16, [0, 0xDEAD_BEEF_0000_5412, 0, 0, 0, 0]), EPERM.value());
    assert_eq!(ask(90, [0, 0xDEAD_0000_0000 | 0o4755, 0, 0, 0, 0]), EPERM.value());
    assert_eq!(ask(2, [0, 0x1_0000_0001, 0, 0, 0, 0]), Answer::Notify.value());
}

/// Asking is what it is spared, nothing that is refused without.
#[test]
fn the_fast_path_is_one_address_and_spares_questions_about_files_only() {
    for spec in specs() {
        let program = program(&spec);
        for from in [PASSED, PASSED - 1, PASSED + 1, PASSED | 1 << 32, PASSED - 2, 0] {
            for nr in 0..600 {
                for &word in &WORDS {
                    check(spec, &program, &Data { nr, arch: spec.arch.audit(), from, args: [word; 6] });
                }
            }
        }
    }
    let spec = FilterSpec { arch: Arch::X86_64, guarded: true, strict: true, preload: true, offline: true };
    let program = program(&spec);
    let ask = |nr, args| run(&program, &Data { nr, arch: spec.arch.audit(), from: PASSED, args }).0;
    // openat, to write; with a set-user-ID mode; chmod with one; fchmod; connect; openat2; io_uring_setup; TIOCSTI.
    assert_eq!(ask(257, [0, 0, 1, 0, 0, 0]), Answer::Allow.value());
    assert_eq!(ask(257, [0, 0, 0o101, 0o4755, 0, 0]), EPERM.value());
    assert_eq!(ask(90, [0, 0o4755, 0, 0, 0, 0]), EPERM.value());
    assert_eq!(ask(91, [0, 0o4755, 0, 0, 0, 0]), EPERM.value());
    assert_eq!(ask(91, [0, 0o755, 0, 0, 0, 0]), Answer::Allow.value());
    assert_eq!(ask(49, [0, 0, 110, 0, 0, 0]), Answer::Notify.value());
    assert_eq!(ask(42, [0, 0, 16, 0, 0, 0]), Answer::Notify.value());
    assert_eq!(ask(437, [0; 6]), ENOSYS.value());
    assert_eq!(ask(425, [0; 6]), ENOSYS.value());
    assert_eq!(ask(16, [0, 0x5412, 0, 0, 0, 0]), EPERM.value());
}

/// Else the kernel would run the program for each `read`.
#[test]
fn numbers_without_a_block_load_no_argument() {
    for spec in specs() {
        let program = program(&spec);
        let asked = |call: &&Call| spec.offline || call.op != Op::Connect;
        let quiet = |nr: &u32| {
            CALLS.iter().filter(asked).all(|call| call.number(spec.arch) != Some(*nr)) && *nr != ioctl(spec.arch)
        };
        for nr in (0..600).filter(quiet) {
            assert_eq!(
                run(&program, &Data { nr, arch: spec.arch.audit(), from: ELSEWHERE, args: [0; 6] }).1,
                0,
                "{nr}"
            );
        }
    }
}

/// What the kernel's verifier asks for: every jump lands inside, and the last instruction answers.
#[test]
fn programs_are_valid_and_short_enough() {
    for spec in specs() {
        let program = program(&spec);
        assert!(program.len() <= crate::sys::seccomp::MAX_INSTRUCTIONS);
        assert_eq!(program.last().map(|last| last.code), Some(RET));
        for (at, i) in program.iter().enumerate() {
            let furthest = at + 1 + if i.code == JA { i.k as usize } else { usize::from(i.jt.max(i.jf)) };
            assert!(i.code == LD || i.code == RET || furthest < program.len(), "{at}: {i:?}");
        }
    }
}

#[test]
fn without_a_listener_nothing_is_notified() {
    for spec in specs().filter(|spec| !spec.guarded) {
        assert!(program(&spec).iter().all(|i| i.code != RET || i.k != Answer::Notify.value()));
    }
}

proptest! {
    #[test]
    fn any_call_is_answered_as_told(bits in 0usize..24, nr in 0u32..600, args in any::<[u64; 6]>()) {
        let spec = specs().nth(bits).expect("one of them");
        check(spec, &program(&spec), &Data { nr, arch: spec.arch.audit(), from: ELSEWHERE, args });
    }
}
