//! Who gets in: hosts, origins, tokens, addresses and limits.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use rustix::process::Signal;
use serde_json::json;

use super::Served;
use crate::cli::{Running, assert_code, text};
use crate::observer::Home;
use crate::support::{CEILING, wait_for};

/// A screen of an agent that asks, in a pane that no rule takes for a shell.
pub const ASKS: &str = "printf 'Do you want to proceed?\\n❯ 1. Yes\\n  2. No, and tell Claude what to do differently (esc)\\n'; exec sleep 1000";

#[track_caller]
fn refused(home: &Home, args: &[&str]) -> String {
    let socket = home.server.socket().display().to_string();
    let output: Output = home.run(&[&["serve", "-S", &socket], args].concat());
    assert_code(&output, 2);
    assert_eq!(text(&output.stdout), "", "{output:?}");
    text(&output.stderr)
}

#[test]
fn only_programs_with_the_token_and_the_page_itself_get_in() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    let served = Served::start(&home, &[]);
    let (address, token) = (&served.address, &served.token);
    assert_eq!(token.len(), 32);
    assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let own = format!("Host: {address}\r\nAuthorization: Bearer {token}\r\n");
    let get =
        |path: &str, headers: &str| served.send(&format!("GET {path} HTTP/1.1\r\n{headers}\r\n"));
    let board = get("/api/v1/board", &own);
    assert_eq!(board.status, 200, "{board:?}");
    assert_eq!(board.json()[0]["name"], "web");
    for path in [
        "/api/v1/runs",
        "/api/v1/schema",
        "/metrics",
        "/healthz",
        "/page/about",
    ] {
        assert_eq!(get(path, &own).status, 200, "{path}");
    }
    assert_eq!(get("/api/v1/none", &own).status, 404);

    let port = address.rsplit_once(':').unwrap().1;
    for (name, headers, status) in [
        ("no token", format!("Host: {address}\r\n"), 401),
        (
            "wrong token",
            format!(
                "Host: {address}\r\nAuthorization: Bearer {}\r\n",
                "0".repeat(32)
            ),
            401,
        ),
        (
            "token as a cookie",
            format!("Host: {address}\r\nCookie: token={token}\r\n"),
            401,
        ),
        (
            "foreign host",
            format!("Host: evil.example:{port}\r\nAuthorization: Bearer {token}\r\n"),
            403,
        ),
        ("no host", format!("Authorization: Bearer {token}\r\n"), 403),
        (
            "foreign origin",
            format!("{own}Origin: https://evil.example\r\n"),
            403,
        ),
        (
            "another port of this machine",
            format!("{own}Origin: http://127.0.0.1:1\r\n"),
            403,
        ),
        ("a sandboxed page", format!("{own}Origin: null\r\n"), 403),
        (
            "a page elsewhere",
            format!("{own}Sec-Fetch-Site: cross-site\r\n"),
            403,
        ),
        (
            "the page",
            format!("{own}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"),
            200,
        ),
    ] {
        for path in ["/api/v1/board", "/page/about", "/healthz", "/metrics"] {
            let answer = get(path, &headers);
            assert_eq!(answer.status, status, "{name}: {path}: {answer:?}");
            assert!(
                !answer.head.to_lowercase().contains("access-control"),
                "{answer:?}"
            );
            if status != 200 {
                assert!(
                    answer.head.contains("application/problem+json"),
                    "{answer:?}"
                );
            }
        }
    }
    let in_query = get(
        &format!("/api/v1/board?token={token}"),
        &format!("Host: {address}\r\n"),
    );
    assert_eq!(in_query.status, 401, "{in_query:?}");
    // The files of the page are no secret, but they are not served to every name either.
    let page = get(
        "/",
        &format!("Host: {address}\r\nSec-Fetch-Site: cross-site\r\n"),
    );
    assert_eq!(page.status, 200);
    let policy = page
        .head
        .lines()
        .find(|line| line.starts_with("Content-Security-Policy"))
        .unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(page.head.contains("X-Content-Type-Options: nosniff"));
    assert_eq!(get("/", "Host: evil.example\r\n").status, 403);
    assert_eq!(
        get("/web/../Cargo.toml", &format!("Host: {address}\r\n")).status,
        401
    );
    assert_eq!(
        served
            .send(&format!("POST / HTTP/1.1\r\nHost: {address}\r\n\r\n"))
            .status,
        405
    );

    // A form of another page cannot set a header.
    let form = "text=rm&answers=x";
    let posted = served.send(&format!(
        "POST /api/v1/panes/web/input HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    ));
    assert_eq!(posted.status, 403, "{posted:?}");

    let output = served.end(Signal::INT);
    assert_code(&output, 0);
    assert!(
        text(&output.stderr).contains("no observer runs"),
        "{output:?}"
    );
    assert!(!home.data().join("serve.json").exists());
}

#[test]
fn a_link_survives_a_restart_until_its_token_is_replaced() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    assert_code(&home.run(&["serve", "--url"]), 3);
    let first = Served::start(&home, &[]);
    let data = home.data();
    let mode = fs::metadata(data.join("serve-token"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let announced = fs::read_to_string(data.join("serve.json")).unwrap();
    assert!(!announced.contains(&first.token), "{announced}");
    let url = home.run(&["serve", "--url", "--qr"]);
    assert_eq!(text(&url.stdout).trim_end(), first.link);
    assert!(text(&url.stderr).contains('█'), "{url:?}");
    let socket = home.server.socket().display().to_string();
    let second = home.run(&["serve", "-S", &socket, "--listen", "0"]);
    assert_code(&second, 1);
    assert!(text(&second.stderr).contains("serve --url"), "{second:?}");
    let (address, link) = (first.address.clone(), first.link.clone());
    first.end(Signal::KILL);

    let again = Served::start_at(&home, &address, &[]);
    assert_eq!(again.link, link);
    assert_eq!(again.ask("GET /api/v1/board", "").status, 200);
    assert_code(&again.end(Signal::TERM), 0);

    let other = Served::start_at(&home, &address, &["--new-token"]);
    assert_ne!(other.link, link);
    assert_eq!(
        text(&home.run(&["serve", "--url"]).stdout).trim_end(),
        other.link
    );
}

#[test]
fn other_addresses_need_a_token_of_the_users_and_tls() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    for (args, words) in [
        (&["--listen", "0.0.0.0:0"][..], "--token-file"),
        (&["--listen", "[::]:0"], "--token-file"),
        (&["--listen", "no such host:1"], "--listen"),
        (&["--listen", "127.0.0.1"], "--listen"),
        (&["--public-url", "http://td.example"], "https://"),
        (&["--public-url", "td.example"], "https://"),
        (&["--token-file", "/no/such/file"], "/no/such/file"),
        (&["--url", "--new-token"], "--new-token"),
    ] {
        let why = refused(&home, args);
        assert!(why.contains(words), "{args:?}: {why}");
        assert_eq!(why.trim_end().lines().count(), 1, "{why}");
    }
    let file = home.directory().join("token");
    let path = file.display().to_string();
    let write = |text: &str, mode: u32| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("short\n", 0o600);
    assert!(refused(&home, &["--token-file", &path]).contains("16 to"));
    write("chosen-by-the-user\n", 0o644);
    assert!(refused(&home, &["--token-file", &path]).contains("chmod 600"));
    write("chosen-by-the-user\n", 0o600);
    let open = Served::start_at(&home, "0.0.0.0:0", &["--token-file", &path]);
    assert_eq!(open.token, "chosen-by-the-user");
    let port = open.address.rsplit_once(':').unwrap().1.to_owned();
    let get = |host: &str| {
        open.send(&format!(
            "GET /page/about HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {}\r\n\r\n",
            open.token
        ))
        .status
    };
    assert_eq!((get("192.168.7.7"), get("evil.example")), (200, 403));
    assert_code(&open.end(Signal::INT), 0);

    let public = home.command(&[
        "serve",
        "-S",
        &home.server.socket().display().to_string(),
        "--listen",
        "0",
        "--public-url",
        "https://td.example/observe",
    ]);
    let public = Running::start(public);
    let link = public.lines.recv_timeout(CEILING).unwrap();
    assert!(
        link.starts_with("https://td.example/observe/#token="),
        "{link}"
    );
    public.signal(Signal::INT);
    assert_code(&public.end(), 0);
}

#[test]
fn slow_and_many_clients_do_not_end_those_that_are_served() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    home.start();
    let served = Served::start(&home, &[]);
    // A stream that is served stays.
    let mut stream = served.connect();
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        served.address, served.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut read = String::new();
    let mut until = |text: &str| {
        let mut bytes = [0; 4096];
        while !read.contains(text) {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "{text}: {read}");
            read.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    until("StreamOpened");
    let slow: Vec<_> = (0..63).map(|_| served.connect()).collect();
    // Each of them has a thread before the next one is refused.
    wait_for("a refusal", CEILING, || {
        match served.ask("GET /page/about", "") {
            answer if answer.status == 503 => Ok(()),
            answer => Err(answer),
        }
    });
    home.server
        .tmux(&["send-keys", "-t", "web", "still served", "Enter"]);
    until("still served");
    // A head that does not come is no longer waited for.
    let mut last = slow.into_iter().next_back().unwrap();
    last.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    wait_for("room", CEILING, || {
        match served.ask("GET /page/about", "") {
            answer if answer.status == 200 => Ok(()),
            answer => Err(answer),
        }
    });
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    assert_eq!(served.send(&long).status, 431);
    home.server
        .tmux(&["send-keys", "-t", "web", "and still", "Enter"]);
    until("and still");
}

#[test]
fn only_its_own_flag_lets_the_server_type_and_only_with_the_question() {
    for has_observer in [true, false] {
        let home = Home::new();
        let pane = home.server.new_session("asks", 80, 24, ASKS);
        if has_observer {
            // Its clients may type; those of the page may not.
            home.start_with(&["--allow-input"]);
        }
        let served = Served::start(&home, &[]);
        let path = format!("POST /api/v1/panes/{}/input", pane.replace('%', "%25"));
        for (path, body) in [
            (path.as_str(), json!({"text": "1"})),
            (
                "POST /api/v1/wait",
                json!({"target": "asks", "text": "x", "send": "1"}),
            ),
        ] {
            let answer = served.ask(path, &body.to_string());
            assert_eq!(answer.status, 403, "{answer:?}");
            let why = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(why.contains("serve --allow-input"), "{why}");
        }
        assert_code(&served.end(Signal::INT), 0);

        if has_observer {
            assert_code(&home.run(&["stop"]), 0);
            home.start();
        }
        let served = Served::start(&home, &["--allow-input"]);
        let question = wait_for("a question", CEILING, || {
            let board = served.ask("GET /api/v1/board", "").json();
            let rows = board.as_array().unwrap().clone();
            let row = rows
                .iter()
                .find(|row| row["state"] == "waiting" && row["ended"] == false);
            row.map(|row| row["question_id"].as_str().unwrap().to_owned())
                .ok_or(rows)
        });
        let answer = |id: &str| served.ask(&path, &json!({"text": "1", "answers": id}).to_string());
        let old = answer("an old one");
        assert_eq!(old.status, 409, "{old:?}");
        assert!(
            old.json()["detail"]
                .as_str()
                .unwrap()
                .contains("the question has changed"),
            "{old:?}"
        );
        assert_eq!(
            served.ask(&path, &json!({"text": "1"}).to_string()).status,
            409
        );
        assert!(
            !home.server.screen(&pane).contains("\n1"),
            "{}",
            home.server.screen(&pane)
        );
        let typed = answer(&question);
        assert_eq!(typed.json(), json!({"pane": pane}), "{typed:?}");
        home.server.wait_for_text(&pane, "1");
        // By the session's name, too, as at the observer's socket; nothing is typed there without the question either.
        let named = served.ask(
            "POST /api/v1/panes/asks/input",
            &json!({"text": "1", "answers": "x"}).to_string(),
        );
        assert_eq!(named.status, 409, "{named:?}");
        let none = served.ask(
            "POST /api/v1/panes/none/input",
            &json!({"text": "1"}).to_string(),
        );
        assert_eq!(none.status, 404, "{none:?}");
    }
}

#[test]
fn an_answer_counts_once_while_the_next_question_is_on_its_way() {
    let home = Home::new();
    // One key answers, and the next question follows half a second later.
    let script = "#!/bin/bash\nfor step in 1 2 3 4 5 6; do\nclear\n\
        printf \"Do you want to run step $step?\\n❯ 1. Yes\\n  2. No, and tell Claude what to do differently (esc)\\n\"\n\
        read -rsn1 key; echo \"$step:$key\" >> GOT; sleep 0.5\ndone\nexec sleep 1000\n";
    let got = home.directory().join("got");
    let claude = home.directory().join("claude");
    fs::write(&claude, script.replace("GOT", &got.display().to_string())).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let pane = home
        .server
        .new_session("asks", 80, 24, &claude.display().to_string());
    home.start();
    let served = Served::start(&home, &["--allow-input"]);
    let question = |before: &str| {
        let row = home.wait_for_row("asks", |row| {
            row["state"] == "waiting" && row["question_id"] != before
        });
        row["question_id"].as_str().unwrap().to_owned()
    };
    let path = format!("POST /api/v1/panes/{}/input", pane.replace('%', "%25"));
    let mut id = question("");
    for step in 1..=3 {
        let body = json!({"text": "1", "answers": id}).to_string();
        let request = format!(
            "{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            served.address,
            served.token,
            body.len()
        );
        // All are sent before one is answered.
        let posts: Vec<_> = (0..4)
            .map(|_| {
                let mut stream = served.connect();
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        let mut codes: Vec<u16> = posts
            .into_iter()
            .map(|mut stream| {
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer.split(' ').nth(1).unwrap().parse().unwrap()
            })
            .collect();
        codes.sort_unstable();
        assert_eq!(codes, [200, 409, 409, 409]);
        id = question(&id);
        let answers = fs::read_to_string(&got).unwrap();
        assert_eq!(answers.lines().count(), step, "{answers}");
    }
}
