//! Runs over time: many at once, reopened, renamed, and written by older versions.

use super::*;

#[test]
fn more_runs_than_open_files_are_written() {
    let temp = fast_dir();
    let mut bench = Bench::new(temp.path());
    let ids: Vec<String> = (0..150).map(|n| format!("job-{n}")).collect();
    for id in &ids {
        bench.open(id);
    }
    let open = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let ours = |path: PathBuf| path.starts_with(temp.path()) && path.ends_with("events.jsonl");
        links
            .filter_map(|link| fs::read_link(link.path()).ok())
            .filter(|p| ours(p.clone()))
            .count()
    };
    for seq in 1..=3 {
        let batch: Vec<_> = ids.iter().map(|id| life(id, seq)).collect();
        bench.append(&batch);
        bench.advance(Duration::from_secs(1));
        assert!(open() <= 96 + 64, "{}", open());
    }
    assert_eq!(bench.notices(), []);
    for id in &ids {
        let found = lines(&bench.run(id).events_path());
        assert_eq!(
            (accounted(&found, 1), first_seqs(&found)),
            ((vec![], 4), vec![1])
        );
    }
    // More simultaneous ends than td-sync has room for.
    for id in &ids {
        bench
            .log
            .close_run(id, RunState::Failed, Some(7), bench.fake.clock().now());
        assert!(!bench.log.is_attached(id));
    }
    let data = bench.data.clone();
    let report = bench.log.finish(bench.fake.clock().now());
    assert!(
        report.problems.is_empty() && report.lost.is_empty(),
        "{report:?}"
    );
    for id in &ids {
        let metadata = data.run(&id.as_str().into()).metadata().unwrap().unwrap();
        assert_eq!(
            (metadata.state, metadata.exit_status),
            (RunState::Failed, Some(7))
        );
    }
}

#[test]
fn every_sync_policy_ends_and_returns_a_deadline() {
    for (policy, deadline) in [
        (SyncPolicy::Never, None),
        (SyncPolicy::Always, None),
        (SyncPolicy::default(), Some(Duration::from_secs(1))),
    ] {
        let temp = tempfile::tempdir().unwrap();
        let mut bench = Bench::synced(temp.path(), policy);
        bench.open("a");
        for seq in 1..=20 {
            bench.append(&[life("a", seq)]);
        }
        let due = bench.log.tick(bench.now());
        assert_eq!(due, deadline.map(|after| bench.now() + after), "{policy:?}");
        bench.advance(Duration::from_secs(1));
        // Nothing new and no deadline: an idle log costs nothing.
        assert_eq!(bench.log.tick(bench.now()), None, "{policy:?}");
        let report = bench.log.finish(bench.fake.clock().now());
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

#[test]
fn unknown_data_are_kept_and_old_logs_continue() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::new(temp.path());
    let run = bench.run("abc123");
    fs::create_dir_all(run.path()).unwrap();
    let seed = concat!(
        r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"abc123","loop_type":"Phase","task":"Add auth"}}"#,
        "\n",
        r#"{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#,
        "\n"
    );
    fs::write(run.events_path(), seed).unwrap();
    assert_eq!(bench.open("abc123"), 1);
    let future = r#"{"seq":1,"ts":"2026-01-21T10:00:02.000000Z","event":{"type":"FromTheFuture","execution_id":"abc123","x":[1]},"trace":"t"}"#;
    bench.append(&[parse_line(future.as_bytes()).unwrap()]);
    let content = fs::read_to_string(run.events_path()).unwrap();
    assert!(
        content.starts_with(seed) && content.ends_with(&format!("{future}\n")),
        "{content}"
    );
    let tail = read_tail(&run.events_path(), 1 << 20).unwrap();
    assert!(matches!(&tail[0].event,
        TdEvent::LoopStarted { task_description, .. } if task_description == "Add auth"));
    assert_eq!(tail.len(), 3);
}

fn identity(session: u32) -> TmuxIdentity {
    TmuxIdentity {
        socket: "/tmp/tmux-0/default".into(),
        server_pid: 4711,
        server_started: 1_768_989_600,
        session_id: format!("${session}"),
        session_created: 1_768_989_601,
    }
}

#[test]
fn a_session_finds_its_run_after_a_rename() {
    let temp = tempfile::tempdir().unwrap();
    let data = DataDir::new(temp.path());
    let wall = FakeClock::new().clock().wall();
    let info = |session: u32| RunInfo {
        identity: Some(identity(session)),
        ..RunInfo::default()
    };
    let mut index = RunIndex::scan(&data);
    let open = |index: &mut RunIndex, label: &str, session: u32| -> (ExecutionId, bool) {
        let run = index.open_run(&data, label, info(session), wall).unwrap();
        (run.execution_id().clone(), run.is_resumed())
    };
    assert_eq!(open(&mut index, "job@1", 1), ("job@1".into(), false));
    // The same label, but another session.
    assert_eq!(open(&mut index, "job@1", 2), ("job@1-2".into(), false));
    // The earlier session under another name; and after a restart, found by a new scan.
    assert_eq!(open(&mut index, "renamed@1", 1), ("job@1".into(), true));
    let bad = data.run(&"bad".into());
    fs::create_dir(bad.path()).unwrap();
    fs::write(bad.metadata_path(), "{\"execution_id\":").unwrap();
    let mut index = RunIndex::scan(&data);
    assert_eq!(open(&mut index, "renamed@1", 2), ("job@1-2".into(), true));
    let scanned = RunIndex::scan(&data);
    assert_eq!(scanned.find(&identity(2)).unwrap().execution_id, "job@1-2");
    assert!(scanned.find(&identity(3)).is_none());
    // An index that is older than the run finds it by its label.
    let mut old = RunIndex::default();
    assert_eq!(open(&mut old, "job@1", 2), ("job@1-2".into(), true));
    // A second observer of the same session is refused instead of getting another run.
    let held = index.open_run(&data, "job@1", info(1), wall).unwrap();
    assert!(
        old.open_run(&data, "job@1", info(1), wall)
            .unwrap_err()
            .is_locked()
    );
    drop(held);
}

#[test]
fn an_unwritable_data_directory_is_an_error_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "").unwrap();
    let error = DataDir::new(file.join("data")).prepare().unwrap_err();
    assert!(error.path().is_some(), "{error:?}");
}

#[test]
fn each_time_the_clock_is_set_back_is_reported() {
    let temp = tempfile::tempdir().unwrap();
    let fake = FakeClock::new();
    let mut bench = Bench::by_clock(temp.path(), fake.clone());
    bench.open("a");
    let mut seq = 0;
    // Lets time pass, sets the clock, appends an event, and counts the warnings.
    let mut after = |bench: &mut Bench, silence: Duration, jump_millis: i64| {
        bench.advance(silence);
        let wall = fake.clock().wall().micros() + jump_millis * 1000;
        fake.set_wall(Timestamp::from_micros(wall));
        seq += 1;
        let event = TdEvent::iteration_started("a", 1);
        bench.append(&[Envelope::new(Some(seq), fake.clock().wall(), event)]);
        bench.notices()
    };
    let (moment, hour) = (Duration::from_micros(1), Duration::from_secs(3600));
    for (silence, jump_millis) in [
        (moment, -3_600_000),
        (moment, -300),
        (moment, -1),
        (hour, -1_800_000),
        (hour, -1),
    ] {
        let notices = after(&mut bench, silence, jump_millis);
        assert_eq!(
            notices,
            [LogNoticeKind::ClockWentBack],
            "{jump_millis} ms after {silence:?}"
        );
        // It was reported, and a clock that is set forward loses no order.
        assert_eq!(after(&mut bench, silence, 0), []);
        assert_eq!(after(&mut bench, silence, 3_600_000), []);
    }
    // No part of a microsecond gets lost.
    for _ in 0..5000 {
        bench.advance(Duration::from_nanos(999));
    }
    assert_eq!(after(&mut bench, moment, 0), []);
    let now = bench.now();
    assert!(bench.log.finish(now).lost.is_empty());
    let run = bench.data.run(&"a".into());
    let read = LogReader::open(&run, Query::all()).unwrap();
    let seqs: Vec<u64> = read.filter_map(|record| record.envelope.seq).collect();
    assert_eq!(seqs, (1..=16).collect::<Vec<u64>>());
    // The next writer's clock is behind the last event.
    let wall = fake.clock().wall().micros() - 1000;
    fake.set_wall(Timestamp::from_micros(wall));
    let mut bench = Bench::by_clock(temp.path(), fake.clone());
    bench.open("a");
    assert_eq!(bench.notices(), [LogNoticeKind::ClockWentBack]);
    bench.finish();
}
