//! `doctor --logs` counts the launches that other sandboxes' races cost.

use serde_json::{Value, json};

use crate::support::Sandbox;

const SOURCE: &str = "bwrap: Can't find source path /p/.mcp.json: No such file or directory";
const CREATE: &str = "bwrap: Can't create file at /newroot/p/.claude: Read-only file system";
const TYPE: &str = "bwrap: Can't get type of source /p/.git/config.lock: No such file or directory";
const REMOUNT: &str = "bwrap: Can't bind mount /oldroot/p/.mcp.json on /newroot/p/.mcp.json: Unable to apply mount flags: \
                       remount \"/newroot/p/.mcp.json\": No such file or directory";

/// An answer of a tool, as a transcript holds it.
fn answer(session: &str, day: &str, call: &str, is_error: bool, text: &str) -> Value {
    json!({
        "type": "user", "sessionId": session, "timestamp": format!("{day}T12:00:00.000Z"),
        "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call, "is_error": is_error, "content": text},
        ]},
        "toolUseResult": format!("Error: {text}"),
    })
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect::<Vec<_>>().concat()
}

/// Two sessions on two days, with quotations, a broken line, and a copy of what was there before.
fn transcripts(sandbox: &Sandbox) {
    let first = [
        answer("one", "2026-11-28", "a", true, &format!("Exit code 1\n{SOURCE}\n")),
        answer("one", "2026-11-29", "b", true, CREATE),
        answer("one", "2026-11-29", "c", true, REMOUNT),
        answer("one", "2026-11-29", "d", true, &format!("grep: log:7:{SOURCE}")),
        answer("one", "2026-11-29", "e", false, SOURCE),
        json!({"type": "assistant", "message": {"content": [{"type": "text", "text": SOURCE}]}}),
    ];
    sandbox.file_beside("logs/one.jsonl", &format!("{}{{\"cut\": \"off\n", lines(&first)));
    let second = [
        answer("two", "2026-11-28", "a", true, &format!("Exit code 1\n{SOURCE}\n")),
        answer("two", "2026-11-29", "f", true, TYPE),
    ];
    sandbox.file_beside("logs/deep/two.jsonl", &lines(&second));
    sandbox.file_beside("logs/plain.log", &format!("starting\n{TYPE}\n  {TYPE}\nsaw \"{TYPE}\"\n\u{0}\u{1}\n"));
}

#[test]
fn counts_by_message_day_and_session() {
    let sandbox = Sandbox::new();
    transcripts(&sandbox);
    let logs = sandbox.beside("logs");
    std::os::unix::fs::symlink(&logs, logs.join("again")).unwrap();
    let outcome = sandbox.stockade(&["doctor", "--json", "--logs"]).option(&logs).plain().ok();
    let count: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!((&count["failures"], &count["unreadable_lines"], &count["files"]), (&json!(5), &json!(1), &json!(3)));
    let messages = json!({
        "bwrap: Can't find source path …": 1,
        "bwrap: Can't get type of source …": 2,
        "bwrap: Can't bind mount … remount …": 1,
        "bwrap: Can't create file at …: Read-only file system": 1,
    });
    assert_eq!(count["messages"], messages);
    assert_eq!(count["days"], json!({"2026-11-28": 1, "2026-11-29": 3, "day unknown": 1}));
    assert_eq!(count["sessions"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 5);
    assert_eq!(count["sessions"]["plain"], 1);
}

#[test]
fn says_so_in_words() {
    let sandbox = Sandbox::new();
    transcripts(&sandbox);
    let outcome = sandbox.stockade(&["doctor", "--logs"]).option(sandbox.beside("logs/one.jsonl")).plain().ok();
    outcome.shows("3 failed tool calls").shows("lines that could not be read: 1").shows("2026-11-29").shows("3  one");
}

#[test]
fn a_path_that_is_not_there_is_an_error() {
    Sandbox::new().stockade(&["doctor", "--logs", "/nowhere/at/all"]).plain().refused().says("/nowhere/at/all");
}
