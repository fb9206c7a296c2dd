//! One line of an agent's transcript: a JSON value that may hold answers of tools.
//!
//! Of the many formats only this is taken for granted: an answer that failed is an object that says so. It either has
//! `is_error` and `content`, or its type ends in `_output` and the status is in its text or beside it.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::race::Race;

/// A tool call that failed with one of the messages.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolError {
    pub(super) race: Race,
    /// In UTC, as `2026-11-30`.
    pub(super) day: Option<String>,
    pub(super) session: String,
    /// What the call is called, in every copy of the line.
    pub(super) call: Option<String>,
}

/// The tool errors of one line. `session` is what its file belongs to, until a line says otherwise.
///
/// # Errors
/// If the line is no JSON.
pub(super) fn errors(line: &[u8], session: &mut String) -> Result<Vec<ToolError>, serde_json::Error> {
    let holds = |text: &str| line.windows(text.len()).any(|window| window == text.as_bytes());
    // Most lines hold neither, and need not be taken apart.
    if !holds("bwrap:") && !holds("session_meta") {
        serde_json::from_slice::<IgnoredAny>(line)?;
        return Ok(Vec::new());
    }
    let record: Value = serde_json::from_slice(line)?;
    if record["type"] == "session_meta"
        && let Some(id) = record["payload"]["id"].as_str()
    {
        id.clone_into(session);
    }
    let of_record = ["sessionId", "session_id", "conversation_id"].iter().find_map(|key| record[key].as_str());
    let (day, session) = (day(&record["timestamp"]), of_record.unwrap_or(session));
    let mut found = Vec::new();
    gather(&record, &mut found);
    let error = |(race, call)| ToolError { race, day: day.clone(), session: session.to_owned(), call };
    Ok(found.into_iter().map(error).collect())
}

/// Fields that hold what a tool was asked, or an answer a second time.
const NO_ANSWERS: [&str; 3] = ["input", "arguments", "toolUseResult"];

/// Every failed answer in a value, at whatever depth.
fn gather(value: &Value, found: &mut Vec<(Race, Option<String>)>) {
    match value {
        Value::Object(fields) => {
            if let Some(text) = failed_answer(value) {
                let call = ["tool_use_id", "call_id", "tool_call_id"].iter().find_map(|key| value[key].as_str());
                found.extend(Race::of_text(&text).map(|race| (race, call.map(str::to_owned))));
            } else {
                let told = fields.iter().filter(|(key, _)| !NO_ANSWERS.contains(&key.as_str()));
                told.for_each(|(_, field)| gather(field, found));
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        _ => {}
    }
}

/// The text of an answer that failed.
fn failed_answer(value: &Value) -> Option<String> {
    if value["is_error"] == true || value["isError"] == true {
        return Some(text(&value["content"]));
    }
    let is_output = value["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
    if !is_output {
        return None;
    }
    let output = &value["output"];
    // Some hold a JSON value as text.
    let inner = output.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_object);
    let outer = inner.as_ref().unwrap_or(output);
    let told = outer["metadata"]["exit_code"].as_i64().map(|code| code != 0);
    let failed = told.or_else(|| outer["success"].as_bool().map(|success| !success));
    let whole = if outer.is_object() { text_of_object(outer) } else { text(outer) };
    failed.unwrap_or_else(|| failed_by_header(&whole)).then_some(whole)
}

/// Some say the status in the lines before `Output:`.
fn failed_by_header(text: &str) -> bool {
    let header = text.lines().take_while(|line| *line != "Output:").take(8);
    let status = |line: &str| {
        let number = line.strip_prefix("Exit code: ").or_else(|| line.strip_prefix("Process exited with code "))?;
        number.trim().parse::<i64>().ok()
    };
    header.filter_map(status).any(|code| code != 0)
}

fn text_of_object(value: &Value) -> String {
    ["output", "content", "stderr"].iter().map(|key| text(&value[key])).collect::<Vec<_>>().join("\n")
}

/// The text of a content: a string, or a list of parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => part.get("text").map(text).unwrap_or_default(),
        _ => String::new(),
    }
}

/// The day of a time: RFC 3339, or a number of seconds or milliseconds since 1970.
fn day(time: &Value) -> Option<String> {
    if let Some(text) = time.as_str() {
        let day = text.get(..10)?;
        let shape: String = day.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        return (shape == "0000-00-00").then(|| day.to_owned());
    }
    let number = time.as_f64().filter(|number| (0.0..1e14).contains(number))?;
    let seconds = if number > 1e11 { number / 1000.0 } else { number };
    let time = std::time::UNIX_EPOCH + std::time::Duration::try_from_secs_f64(seconds).ok()?;
    Some(humantime::format_rfc3339_seconds(time).to_string().chars().take(10).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "bwrap: Can't find source path /p/.mcp.json: No such file or directory";

    fn found(line: &Value) -> Vec<ToolError> {
        errors(line.to_string().as_bytes(), &mut "file".to_owned()).expect("JSON")
    }

    fn result(is_error: bool, content: &Value) -> Value {
        let part =
            serde_json::json!({"type": "tool_result", "tool_use_id": "t1", "is_error": is_error, "content": content});
        serde_json::json!({
            "type": "user", "sessionId": "s1", "timestamp": "2026-11-30T10:00:00.000Z",
            "message": {"role": "user", "content": [part]}, "toolUseResult": format!("Error: {MESSAGE}"),
        })
    }

    #[test]
    fn a_tool_error_counts_once_whatever_the_form_of_its_content() {
        let texts = [
            serde_json::json!(format!("Exit code 1\n{MESSAGE}")),
            serde_json::json!([{"type": "text", "text": MESSAGE}]),
        ];
        for content in texts {
            let expected = ToolError {
                race: Race::SourcePath,
                day: Some("2026-11-30".into()),
                session: "s1".into(),
                call: Some("t1".into()),
            };
            assert_eq!(found(&result(true, &content)), [expected]);
            assert!(found(&result(false, &content)).is_empty());
        }
    }

    #[test]
    fn what_is_quoted_does_not_count() {
        assert!(found(&result(true, &serde_json::json!(format!("the log says: {MESSAGE}")))).is_empty());
        let said =
            serde_json::json!({"type": "assistant", "message": {"content": [{"type": "text", "text": MESSAGE}]}});
        assert!(found(&said).is_empty());
        let asked = serde_json::json!({"type": "tool_use", "input": {"is_error": true, "content": MESSAGE}});
        assert!(found(&asked).is_empty());
    }

    #[test]
    fn outputs_with_a_status() {
        let output = |text: &str| {
            let payload = serde_json::json!({"type": "function_call_output", "call_id": "c", "output": text});
            found(&serde_json::json!({"timestamp": 1_796_031_000, "payload": payload}))
        };
        assert_eq!(output(&format!("Exit code: 1\nOutput:\n{MESSAGE}")).len(), 1);
        assert_eq!(output(&format!("Exit code: 1\nOutput:\n{MESSAGE}"))[0].session, "file");
        assert_eq!(output(&format!("Exit code: 0\nOutput:\nExit code: 1\n{MESSAGE}")).len(), 0);
        let inner = |code: i32| serde_json::json!({"output": MESSAGE, "metadata": {"exit_code": code}}).to_string();
        assert_eq!((output(&inner(1)).len(), output(&inner(0)).len()), (1, 0));
    }

    #[test]
    fn days() {
        assert_eq!(day(&serde_json::json!(1_796_031_000)), day(&serde_json::json!(1_796_031_000_000_i64)));
        assert_eq!(day(&serde_json::json!("yesterday, maybe")), None);
    }
}
