//! The columns that a file says it has, from its first bytes.
//!
//! | format | where they are |
//! |---|---|
//! | CSV, TSV | the header line |
//! | Arrow | the first message, in the stream format and in the file format alike |
//! | Avro | the header of the container |
//!
//! An object that is read as a whole is requested once: what has been looked at is put back in front
//! of the rest. Of an object that is read in ranges the first bytes are requested extra, once in a scan.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek};

use bytes::{Bytes, BytesMut};
use datafusion::arrow::csv::reader::Format;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow_avro::reader::ReaderBuilder;
use datafusion::common::{Result, exec_err};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetResult, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};

/// What is requested of an object at first.
const FIRST_BYTES: usize = 4 * 1024;

/// A description of columns that is longer than this is taken for a damaged file.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// What an Arrow file begins with. Zeros follow, as many as its writer likes for alignment.
const IPC_FILE_MAGIC: &[u8] = b"ARROW1";

/// What each message of an Arrow stream begins with.
const IPC_CONTINUATION: [u8; 4] = [0xff; 4];

/// Knows where a format describes the columns of a file.
#[derive(Debug, Clone)]
pub(crate) enum SchemaProbe {
    Csv(HeaderFormat),
    Arrow,
    Avro,
}

/// What has been found in front of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    /// A CSV header.
    Header(Header),
    /// The columns of an Arrow file.
    IpcFile(SchemaRef),
    /// The columns of an Arrow stream.
    IpcStream(SchemaRef),
    /// The columns of an Avro file.
    Avro(SchemaRef),
}

impl Found {
    /// The columns with their types, which a header does not have.
    pub(crate) fn schema(self) -> Option<SchemaRef> {
        match self {
            Self::Header(_) => None,
            Self::IpcFile(schema) | Self::IpcStream(schema) | Self::Avro(schema) => Some(schema),
        }
    }
}

/// The header line of a CSV file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Header {
    /// The names in it. None in a file without any line.
    pub(crate) names: Vec<String>,
    /// Where the line starts, behind empty lines and comments.
    pub(crate) start: usize,
}

/// How headers are written.
#[derive(Debug, Clone)]
pub(crate) struct HeaderFormat {
    pub(crate) format: Format,
    pub(crate) terminator: Option<u8>,
    pub(crate) comment: Option<u8>,
}

impl SchemaProbe {
    /// Looks at the beginning of an object. Returns the object as it was.
    pub(crate) async fn look_at(&self, result: GetResult) -> Result<(Found, GetResult)> {
        let GetResult {
            payload,
            meta,
            range,
            attributes,
        } = result;
        let (found, payload) = match payload {
            GetResultPayload::File(mut file, path) => {
                let mut head = vec![];
                let found = loop {
                    let wanted = next_length(head.len())?;
                    let more = (wanted - head.len()) as u64;
                    let read = (&mut file).take(more).read_to_end(&mut head)?;
                    if let Some(found) = self.find(&head, (read as u64) < more)? {
                        break found;
                    }
                };
                file.rewind()?;
                (found, GetResultPayload::File(file, path))
            }
            GetResultPayload::Stream(mut stream) => {
                let mut head = BytesMut::new();
                let found = loop {
                    let chunk = stream.try_next().await?;
                    let is_whole = chunk.is_none();
                    head.extend_from_slice(&chunk.unwrap_or_default());
                    if let Some(found) = self.find(&head, is_whole)? {
                        break found;
                    }
                    next_length(head.len())?;
                };
                let head = stream::once(async move { Ok(head.freeze()) });
                (found, GetResultPayload::Stream(head.chain(stream).boxed()))
            }
        };
        let result = GetResult {
            payload,
            meta,
            range,
            attributes,
        };
        Ok((found, result))
    }

    /// Requests the beginning of an object that is not compressed.
    pub(crate) async fn fetch(
        &self,
        store: &dyn ObjectStore,
        object: &ObjectMeta,
    ) -> Result<Found> {
        let mut head = Bytes::new();
        loop {
            let wanted = object.size.min(next_length(head.len())? as u64);
            head = store.get_range(&object.location, 0..wanted).await?;
            if let Some(found) = self.find(&head, wanted == object.size)? {
                return Ok(found);
            }
        }
    }

    /// `None` when `head` ends too early.
    fn find(&self, head: &[u8], is_whole: bool) -> Result<Option<Found>> {
        match self {
            Self::Csv(format) => format.find(head, is_whole),
            Self::Arrow => find_ipc_schema(head, is_whole),
            Self::Avro => match ReaderBuilder::new().build(Cursor::new(head)) {
                Ok(reader) => Ok(Some(Found::Avro(reader.schema()))),
                Err(_) if !is_whole => Ok(None),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// How much of a file to look at when `looked_at` bytes were not enough.
fn next_length(looked_at: usize) -> Result<usize> {
    if looked_at >= MOST_BYTES {
        return exec_err!("no description of the columns in the first {MOST_BYTES} bytes");
    }
    Ok((looked_at * 8).clamp(FIRST_BYTES, MOST_BYTES))
}

impl HeaderFormat {
    fn find(&self, head: &[u8], is_whole: bool) -> Result<Option<Found>> {
        let ran_out = Cell::new(false);
        let reader = Head {
            rest: head,
            is_whole,
            ran_out: &ran_out,
        };
        // No record is looked at, so that the names are all that is found.
        let inferred = self.format.infer_schema(reader, Some(0));
        if ran_out.get() {
            return Ok(None);
        }
        let (schema, _) = inferred?;
        let names = schema.fields().iter().map(|field| field.name().clone());
        Ok(Some(Found::Header(Header {
            names: names.collect(),
            start: self.start(head),
        })))
    }

    /// The first byte that is neither in an empty line nor in a comment.
    fn start(&self, head: &[u8]) -> usize {
        let is_line_end = |byte: u8| match self.terminator {
            Some(terminator) => byte == terminator,
            None => matches!(byte, b'\r' | b'\n'),
        };
        let mut start = 0;
        let mut rest = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
        while let Some((first, behind)) = rest.split_first() {
            rest = if is_line_end(*first) {
                behind
            } else if Some(*first) == self.comment {
                let end = behind.iter().position(|byte| *byte == b'\n');
                end.map_or(&[], |end| &behind[end + 1..])
            } else {
                break;
            };
            start = head.len() - rest.len();
        }
        start
    }
}

/// What some programs put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The beginning of a file, which must not be mistaken for all of it.
struct Head<'a> {
    rest: &'a [u8],
    is_whole: bool,
    ran_out: &'a Cell<bool>,
}

impl Read for Head<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.rest.read(buffer)?;
        if read == 0 && !buffer.is_empty() && !self.is_whole {
            self.ran_out.set(true);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read)
    }
}

/// The file format is the stream format behind a magic number, plus an index at the end.
fn find_ipc_schema(head: &[u8], is_whole: bool) -> Result<Option<Found>> {
    let (is_file, stream) = match head.strip_prefix(IPC_FILE_MAGIC) {
        Some(rest) => {
            let padding = rest.iter().position(|byte| *byte != 0);
            (true, &rest[padding.unwrap_or(rest.len())..])
        }
        None => (false, head),
    };
    // Checked here, because a reader of other bytes would believe any length they spell.
    let length = match stream.get(..8) {
        Some([a, b, c, d, length @ ..]) if [*a, *b, *c, *d] == IPC_CONTINUATION => {
            let length = <[u8; 4]>::try_from(length).map(u32::from_le_bytes);
            length.map_or(usize::MAX, |length| length as usize)
        }
        Some(_) => usize::MAX,
        None if is_whole => usize::MAX,
        None => return Ok(None),
    };
    if length > MOST_BYTES {
        return exec_err!("neither an Arrow IPC file nor an Arrow IPC stream");
    }
    if stream.len() < 8 + length && !is_whole {
        return Ok(None);
    }
    let schema = StreamReader::try_new(Cursor::new(stream), None)?.schema();
    Ok(Some(if is_file {
        Found::IpcFile(schema)
    } else {
        Found::IpcStream(schema)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &[u8], is_whole: bool) -> Option<Vec<String>> {
        match format(None).find(text, is_whole).unwrap()? {
            Found::Header(header) => Some(header.names),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_header_ends_with_its_line_or_the_file() {
        let ab = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(header(b"a,b\n1,2\n", false), ab);
        assert_eq!(header(b"a,b\r\n", false), ab);
        assert_eq!(header(b"a,b", true), ab);
        assert_eq!(header(b"a,b", false), None);
        assert_eq!(header(b"\xef\xbb\xbfa,b\n", true), ab);
        assert_eq!(header(b"\n\na,b\n", true), ab);
        assert_eq!(header(b"", true), Some(vec![]));
        assert_eq!(header(b"\n", true), Some(vec![]));
        assert_eq!(
            header(b"\"x,\"\"y\"\"\n\",b\n", true),
            Some(vec!["x,\"y\"\n".to_owned(), "b".to_owned()])
        );
    }

    fn format(comment: Option<u8>) -> HeaderFormat {
        HeaderFormat {
            format: Format::default().with_header(true),
            terminator: None,
            comment,
        }
    }

    #[test]
    fn a_header_starts_behind_empty_lines_and_comments() {
        let start = |text: &str| format(Some(b'#')).start(text.as_bytes());
        assert_eq!(start("a,b\n"), 0);
        assert_eq!(start("\u{feff}a,b\n"), 0);
        assert_eq!(start("\r\n\na,b\n"), 3);
        assert_eq!(start("# x\n\n#\na,#\n"), 7);
        assert_eq!(start("#"), 1);
        assert_eq!(format(None).start(b"#a\n"), 0);
    }

    #[test]
    fn bytes_of_another_kind_are_no_arrow() {
        for bytes in [&b"id,name\n1,a\n"[..], b"ARROW1\0\0garbage!", b"PAR1"] {
            let error = find_ipc_schema(bytes, true).unwrap_err().to_string();
            assert!(error.contains("neither an Arrow IPC file"), "{error}");
        }
        assert_eq!(find_ipc_schema(b"ARR", false).unwrap(), None);
    }
}
