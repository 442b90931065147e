use super::*;

const SOON: Duration = Duration::from_secs(10);

fn start_up() -> Vec<u8> {
    [
        &8_u32.to_be_bytes()[..],
        &80_877_103_u32.to_be_bytes(),
        &9_u32.to_be_bytes(),
        &[0, 3, 0, 0, 0],
    ]
    .concat()
}

fn update(flush: u64) -> Vec<u8> {
    let mut message = b"d\0\0\0\x26r".to_vec();
    for position in [99, flush, 98] {
        message.extend(u64::to_be_bytes(position));
    }
    message.extend([0; 9]);
    message
}

#[test]
fn status_updates_are_found_wherever_the_reads_split_them() {
    let other = b"d\0\0\0\x05x".to_vec();
    let stream = [start_up(), b"Q\0\0\0\x06x\0".to_vec(), update(5), other, update(3)].concat();
    for size in 1..stream.len() {
        let mut updates = Updates::default();
        let found: Vec<u64> = stream.chunks(size).filter_map(|chunk| updates.read(chunk)).collect();
        assert_eq!(found.iter().max(), Some(&5), "chunks of {size}");
        assert_eq!(updates.read(&update(7)), Some(7), "nothing was left over");
    }
}

#[test]
fn an_incomplete_status_update_yields_no_position() {
    let mut updates = Updates::default();
    assert_eq!(updates.read(&start_up()), None);
    let (most, last) = (update(5), 0);
    assert_eq!(updates.read(&most[..most.len() - 1]), None);
    assert_eq!(updates.read(&[last]), Some(5));
}

#[tokio::test]
async fn status_updates_are_forwarded_and_read_even_after_the_server_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tap = Tap::start(listener.local_addr().unwrap().to_string()).await.unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", tap.port())).await.unwrap();
    client.write_all(&start_up()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut arrived = vec![0; start_up().len()];
    server.read_exact(&mut arrived).await.unwrap();
    assert_eq!(arrived, start_up());
    drop(server);

    let updates = [update(9), update(7)].concat();
    client.write_all(&updates).await.unwrap();
    drop(client);
    tap.closed(SOON).await.unwrap();
    assert_eq!((tap.take_highest_flush(), tap.highest_flush()), (PgLsn::from(9), PgLsn::from(0)));
}
