//! Kernels that misbehave while they run code: one clear error, or the right result.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use td_observe::kernel::{CellStatus, Kernel};

use super::fake::{Answer, Fake, Manners};
use super::fake_wire::frame;
use super::hostile::{run, text_of};

fn executing(execute: impl Fn(&Answer<'_>) + Send + Sync + 'static) -> Fake {
    Fake::start(Manners {
        execute: Box::new(execute),
        ..Manners::default()
    })
}

#[test]
fn broken_messages() {
    let part = |index: usize| {
        executing(move |answer| {
            answer.publish_changed(|frames| frames[index] = b"{\"\x1b".to_vec())
        })
    };
    // The signature covers the sent frames: an empty key signs nothing.
    for index in 1..6 {
        let text = text_of(&run(&part(index)).unwrap_err());
        assert!(text.contains("iopub socket at 127.0.0.1"), "{text}");
        assert!(
            text.contains("a message is signed with another key"),
            "{text}"
        );
    }
    for (index, name) in [
        (2, "header"),
        (3, "parent header"),
        (4, "metadata"),
        (5, "content"),
    ] {
        let fake = part(index);
        let mut info = fake.info.clone();
        info.key.clear();
        let mut kernel = Kernel::connect(&info).unwrap();
        let text = text_of(&kernel.execute("code", |_, _| {}).unwrap_err());
        assert!(
            text.contains(&format!("a message is malformed: the {name}: ")),
            "{text}"
        );
    }
    for (bytes, words) in [
        (vec![2, 0x10, 0, 0, 0, 0, 0, 0, 0], "longer than 256 MiB"),
        ([1, 0].repeat(10_000), "too many frames"),
        (vec![0x18, 0], "unknown flags"),
        (frame(0, b"<IDS|MSG>"), "frames are missing"),
        (
            frame(4, b"\x05ERROR\x04gone"),
            "refuses the connection: gone",
        ),
    ] {
        let fake = executing(move |answer| answer.raw(&bytes));
        let text = text_of(&run(&fake).unwrap_err());
        assert!(text.contains(words), "{text} has no {words:?}");
    }
}

#[test]
fn a_kernel_that_closes_in_the_middle_of_a_cell() {
    let is_first = AtomicBool::new(true);
    let fake = executing(move |answer| {
        if is_first.swap(false, Ordering::SeqCst) {
            answer.print("before");
            answer.close_all();
        } else {
            answer.end();
        }
    });
    let mut kernel = Kernel::connect(&fake.info).unwrap();
    let error = kernel.execute("code", |_, _| {}).unwrap_err();
    assert!(error.is_gone());
    let text = text_of(&error);
    assert!(
        text.contains("closed its connections while the code ran"),
        "{text}"
    );
    // The kernel accepts connections again.
    assert!(kernel.execute("code", |_, _| {}).unwrap().status.is_ok());
    // The same between two cells. The next cell may begin before the client notices.
    fake.close_all();
    if let Err(error) = kernel.execute("code", |_, _| {}) {
        assert!(
            text_of(&error).contains("closed its connections"),
            "{error}"
        );
    }
    assert!(kernel.execute("code", |_, _| {}).unwrap().status.is_ok());
    // A kernel that is gone is reported at once, every time.
    drop(fake);
    // The first code may be in transit when the kernel closes; the second waits for a restart.
    for _ in 0..2 {
        let error = kernel.execute("code", |_, _| {}).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
    let began = Instant::now();
    for _ in 0..2 {
        let error = kernel.execute("code", |_, _| {}).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_silent_kernel_is_reported_until_it_answers_again() {
    let beats = Arc::new(AtomicBool::new(false));
    let answers = beats.clone();
    let fake = Fake::start(Manners {
        beats: beats.clone(),
        execute: Box::new(move |answer| {
            if answers.load(Ordering::SeqCst) {
                answer.end();
            }
        }),
        ..Manners::default()
    });
    let mut kernel = Kernel::connect(&fake.info).unwrap();
    for _ in 0..3 {
        let text = text_of(&kernel.execute("code", |_, _| {}).unwrap_err());
        assert!(
            text.contains("has not answered its heartbeat for 3 s"),
            "{text}"
        );
    }
    beats.store(true, Ordering::SeqCst);
    fake.wait_for_beats(2);
    assert!(kernel.execute("code", |_, _| {}).unwrap().status.is_ok());
}

#[test]
fn a_reply_without_idle() {
    let fake = executing(|answer| {
        answer.print("x");
        let error =
            json!({ "status": "error", "ename": "E", "evalue": "v", "traceback": ["E: v"] });
        answer.reply("execute_reply", &error);
    });
    let began = Instant::now();
    let result = run(&fake).unwrap();
    assert!(
        began.elapsed() >= Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (result.stdout.as_str(), result.stderr.as_str()),
        ("x", "E: v\n")
    );
    assert_eq!(
        result.status,
        CellStatus::Error {
            name: "E".into(),
            message: "v".into()
        }
    );
}

/// Python's kernel does this when an interrupt arrives between the code and the reply.
#[test]
fn idle_without_a_reply() {
    let fake = executing(|answer| {
        answer.print("x");
        answer.status("idle");
    });
    let result = run(&fake).unwrap();
    assert_eq!(
        (result.stdout.as_str(), result.status),
        ("x", CellStatus::Aborted)
    );
}

/// The reply precedes the outputs, and the callback takes longer than the wait for the last output.
#[test]
fn a_slow_callback_gets_outputs_after_the_reply() {
    let fake = executing(|answer| {
        answer.reply("execute_reply", &json!({ "status": "ok" }));
        for number in 0..20 {
            answer.print(&format!("{number}\n"));
        }
        answer.status("idle");
    });
    let mut kernel = Kernel::connect(&fake.info).unwrap();
    let mut got = String::new();
    let result = kernel.execute("code", |_, text| {
        if got.is_empty() {
            // Longer than the wait for an output.
            std::thread::park_timeout(Duration::from_secs(6));
        }
        got.push_str(text);
    });
    let result = result.unwrap();
    assert_eq!(got.lines().count(), 20);
    assert_eq!(result.stdout, got);
    assert!(result.missed.is_empty());
}

#[test]
fn missed_outputs_are_counted_exactly() {
    const SENT: u64 = 1_900;
    const BYTES: usize = 64 * 1024;
    let (sent, is_sent) = mpsc::channel();
    let sent = Mutex::new(sent);
    let fake = executing(move |answer| {
        for number in 0..SENT {
            answer.print(&format!("{number:08}{}", "x".repeat(BYTES - 8)));
        }
        sent.lock().unwrap().send(()).unwrap();
        answer.end();
    });
    let mut kernel = Kernel::connect(&fake.info).unwrap();
    let (mut got, mut last) = (0, None);
    let result = kernel.execute("code", |_, text| {
        if got == 0 {
            // 120 MB take half a minute beside other tests.
            is_sent.recv_timeout(Duration::from_secs(240)).unwrap();
        }
        got += 1;
        assert_eq!(text.len(), BYTES);
        let number: u64 = text[..8].parse().unwrap();
        assert!(last.is_none_or(|last| number > last), "in order");
        last = Some(number);
    });
    let result = result.unwrap();
    assert!(result.missed.messages > 0, "nothing is missed");
    assert_eq!(got + result.missed.messages, SENT);
    assert!(result.missed.bytes >= result.missed.messages * BYTES as u64);
    assert_eq!(result.stdout.len() as u64, got * BYTES as u64);
}

#[test]
fn a_hundred_thousand_states() {
    let fake = executing(|answer| {
        for _ in 0..50_000 {
            answer.status("busy");
            answer.publish("comm_msg", &json!({ "data": "\u{1b}" }));
        }
        answer.print("end");
        answer.end();
    });
    let result = run(&fake).unwrap();
    assert_eq!(result.stdout, "end");
    assert!(result.missed.is_empty());
}

/// Contents that differ from the protocol are ignored, not an error.
#[test]
fn contents_of_other_forms() {
    let fake = executing(|answer| {
        for msg_type in [
            "status",
            "stream",
            "display_data",
            "execute_result",
            "clear_output",
            "update_display_data",
        ] {
            for content in [
                json!(null),
                json!([1]),
                json!({ "text": 7, "data": 7 }),
                json!("x"),
            ] {
                answer.publish(msg_type, &content);
            }
        }
        answer.print("end");
        answer.end();
    });
    let result = run(&fake).unwrap();
    assert!(
        result.stdout.ends_with("end") && result.status.is_ok(),
        "{result:?}"
    );
}
