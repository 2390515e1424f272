//! Tests of signed messages.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(frames: &[Vec<u8>], signer: &Signer) -> Result<Message, WireError> {
    let frames: Multipart = frames.iter().map(Vec::as_slice).collect();
    Message::read(Channel::Shell, &frames, signer)
}

fn request(code: &str, signer: &Signer) -> Vec<Vec<u8>> {
    let request = Request {
        msg_id: "s_1",
        msg_type: "execute_request",
        session: "s",
        date: "2026-01-21T10:00:00Z",
        content: &json!({ "code": code }),
    };
    request.frames(signer)
}

proptest! {
    #[test]
    fn a_flipped_bit_is_refused(
        key in prop::collection::vec(any::<u8>(), 1..80),
        code in any::<String>(),
        part in 0_usize..5,
        at in any::<prop::sample::Index>(),
        bit in 0..8,
    ) {
        let signer = Signer::new(&key);
        let mut frames = request(&code, &signer);
        let message = read(&frames, &signer).unwrap();
        prop_assert_eq!(&message.msg_type, "execute_request");
        prop_assert_eq!((&*message.parent_id, &*message.parent_type), ("", ""));
        prop_assert_eq!(message.content(), Some(json!({ "code": code })));
        // Upper-case digits are the same signature.
        let bit = if part == 0 && bit == 5 { 4 } else { bit };
        let part = &mut frames[1 + part];
        let at = at.index(part.len());
        part[at] ^= 1 << bit;
        prop_assert!(matches!(read(&frames, &signer), Err(WireError::Signature)));
        let other = Signer::new(b"another key");
        prop_assert!(matches!(read(&request(&code, &signer), &other), Err(WireError::Signature)));
    }

    #[test]
    fn random_frames_are_no_panic(
        frames in prop::collection::vec(prop_oneof![
            Just(DELIMITER.to_vec()),
            Just(b"{}".to_vec()),
            any::<Vec<u8>>(),
        ], 0..12),
        key in "a?",
    ) {
        let _ = read(&frames, &Signer::new(key.as_bytes()));
    }
}

/// The digits come from Python: `hmac.new(b"key", b"{}{}{}{}", "sha256").hexdigest()`.
#[test]
fn signatures_are_those_of_other_programs() {
    let signature = "ca767b02c5bc061ed184a9a029e7f93a7f2f7ed4e8fe74120fc1212f0b008fa3";
    let parts: [&[u8]; 4] = [b"{}"; 4];
    let signer = Signer::new(b"key");
    assert_eq!(signer.sign(&parts), signature);
    assert!(signer.accepts(signature.to_uppercase().as_bytes(), &parts));
    assert!(!signer.accepts(&signature.as_bytes()[..62], &parts));
}

#[test]
fn an_empty_key_signs_nothing_and_accepts_everything() {
    let signer = Signer::new(b"");
    let mut frames = request("1", &signer);
    assert_eq!(frames[1], b"");
    frames[1] = b"any".to_vec();
    assert!(read(&frames, &signer).is_ok());
    assert_eq!(
        read(&request("1", &signer), &Signer::new(b"k")).unwrap_err(),
        WireError::Signature
    );
}

#[test]
fn each_malformed_part_is_named() {
    let signer = Signer::new(b"");
    for (index, name) in ["header", "parent header", "metadata", "content"]
        .into_iter()
        .enumerate()
    {
        for bad in ["{", "", "\u{1b}[2J", "{}{}"] {
            let mut frames = request("1", &signer);
            frames[2 + index] = bad.into();
            let error = read(&frames, &signer).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("a message is malformed: the {name}: ")),
                "{error}"
            );
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }
    let frames = request("1", &signer);
    for count in 0..frames.len() {
        let error = read(&frames[..count], &signer).unwrap_err().to_string();
        assert!(error.contains("frames are missing"), "{error}");
    }
}

/// Frames before the delimiter (identities, topics) and after the content (buffers) are ignored.
#[test]
fn other_frames_are_left_out() {
    let signer = Signer::new(b"k");
    let mut frames = request("1", &signer);
    frames.splice(0..0, [b"id".to_vec(), Vec::new()]);
    frames.push(vec![0; 9]);
    assert!(read(&frames, &signer).is_ok());
}
