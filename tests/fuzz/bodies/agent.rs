//! Any stream of an agent, in any pieces: each division gives the same events, and the end is reported once.
//!
//! The first byte selects the format and the longest record, the second the division into pieces.

use td_observe::Timestamp;
use td_observe::agent::{AgentEvent, Format, StreamParser, StreamStatus};

use super::cut::cut;

pub fn run(bytes: &[u8]) {
    let Some((&[how, cuts], stream)) = bytes.split_first_chunk() else {
        return;
    };
    let format = Format::ALL[usize::from(how) % Format::ALL.len()];
    let bytes_max = if how >= 128 { 100 } else { 1_000_000 };
    let whole = events(format, bytes_max, &[stream]);
    let pieces = cut(stream, cuts);
    assert_eq!(events(format, bytes_max, &pieces), whole, "cut otherwise");
    for event in &whole.0 {
        if let AgentEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
        } = event
        {
            // 200 characters of four bytes, and an ellipsis.
            assert!(tool_name.len() <= 803 && tool_args_summary.len() <= 803);
        }
    }
    settled(format, bytes_max, &pieces);
}

fn events(format: Format, bytes_max: usize, pieces: &[&[u8]]) -> (Vec<AgentEvent>, StreamStatus) {
    let mut parser = StreamParser::with_record_bytes_max(format, bytes_max);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    for piece in pieces {
        parser.push(piece, now, &mut events);
    }
    parser.finish(now, &mut events);
    let count = events.len();
    parser.finish(now, &mut events);
    assert_eq!(events.len(), count, "the end is told once");
    (events, parser.status())
}

/// Flushes the parser after each piece, which must not panic.
fn settled(format: Format, bytes_max: usize, pieces: &[&[u8]]) {
    let mut parser = StreamParser::with_record_bytes_max(format, bytes_max);
    let mut events = Vec::new();
    for (piece, micros) in pieces.iter().zip(0..) {
        let now = Timestamp::from_micros(micros);
        parser.push(piece, now, &mut events);
        parser.flush_idle(now, &mut events);
    }
    parser.finish(Timestamp::from_micros(0), &mut events);
}
