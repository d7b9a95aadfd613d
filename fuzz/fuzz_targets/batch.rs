//! Record batches as producers send them and as segments hold them. The first byte chooses where they come from, and whether
//! the checksum is mended first, so that mutations get past it.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use wire::records::{
    Batch, BatchError, Caps, Codec, Compression, ControlRecord, Rules, Source, recompress,
    validate_records,
};

const CAPS: Caps = Caps {
    bytes_max: 4 << 20,
    ratio_max: 2000,
    record_bytes_max: i32::MAX,
};

fuzz_target!(|data: &[u8]| {
    let [how, rest @ ..] = data else { return };
    let source = if how & 1 == 0 {
        Source::Produce
    } else {
        Source::Log
    };
    let mut bytes = rest.to_vec();
    if how & 2 != 0
        && let Some(Err(BatchError::Checksum { computed, .. })) =
            Batch::cut(&Bytes::copy_from_slice(&bytes), source).next()
    {
        bytes[17..21].copy_from_slice(&computed.to_be_bytes());
    }
    for batch in Batch::cut(&Bytes::from(bytes), source) {
        let Ok(batch) = batch else { break };
        check(&batch);
    }
    if let Some(codec) = Codec::from_id(how >> 5)
        && let Ok(plain) = codec.decompress(&Bytes::copy_from_slice(rest), CAPS)
    {
        assert!(codec == Codec::None || plain.len() <= CAPS.bytes_max);
        let again = Compression::from(codec).compress(plain.clone());
        assert_eq!(codec.decompress(&again, Caps::default()), Ok(plain));
    }
});

fn check(batch: &Batch) {
    assert!(batch.is_intact());
    assert!(batch.base_offset() <= batch.last_offset());
    let same = Batch::cut(&batch.to_bytes(), Source::Log).next();
    assert_eq!(same, Some(Ok(batch.clone())));
    let _ = ControlRecord::read(batch);
    let rules = Rules {
        caps: CAPS,
        ..Rules::default()
    };
    let Ok(summary) = validate_records(batch, &rules) else {
        return;
    };
    assert_eq!(summary.count, batch.record_count());
    // A batch that was read once reads the same under another codec.
    let again = recompress(batch, Codec::Lz4.into(), CAPS).expect("readable");
    assert_eq!(validate_records(&again, &rules), Ok(summary));
}
