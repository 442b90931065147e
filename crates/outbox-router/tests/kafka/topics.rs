//! What a real broker says of topics in use.

use outbox_router::kafka::{Identity, Seen, Sight, TopicDirectory, open};
use relay::{TopicId, TopicName};

use crate::broker::{blocking, settings, shared, topic_name};

async fn see(directory: &TopicDirectory, names: &[TopicName]) -> Vec<Seen> {
    let (directory, names) = (directory.clone(), names.to_vec());
    blocking(move || directory.see(&names)).await.unwrap()
}

/// Between two looks at it: nobody ever saw it gone.
#[tokio::test]
async fn a_topic_that_was_deleted_and_made_again_is_another_one() {
    let kafka = shared().await;
    let settings = settings(&kafka);
    let names = ["replaced", "kept"].map(topic_name);
    let ids = [0, 1].map(|index| TopicId::from_index(index).unwrap());
    let mut sink = open(&settings, usize::MAX).unwrap();
    for (id, name) in ids.iter().zip(&names) {
        kafka.create_topic(name.as_str(), 2, &[]).await.unwrap();
        sink.bind_topic(*id, name);
    }
    let directory = TopicDirectory::new(&sink, &settings);
    for seen in [see(&directory, &names).await, see(&directory, &names).await] {
        for (id, seen) in ids.iter().zip(seen) {
            assert_eq!(seen.sight, Sight::Partitions(2.try_into().unwrap()));
            assert_eq!(sink.identify_topic(*id, seen.uuid.unwrap()), Identity::Same);
        }
    }

    kafka.delete_topic("replaced").await.unwrap();
    kafka.create_topic("replaced", 2, &[]).await.unwrap();
    let seen = see(&directory, &names).await;
    assert_eq!(sink.identify_topic(ids[0], seen[0].uuid.unwrap()), Identity::Another);
    assert_eq!(sink.identify_topic(ids[1], seen[1].uuid.unwrap()), Identity::Same);

    kafka.delete_topic("replaced").await.unwrap();
    let seen = see(&directory, &names).await;
    assert_eq!(seen[0], Seen { sight: Sight::Gone, uuid: None });
    assert!(seen[1].uuid.is_some(), "one that is gone hides no other");
    drop(directory);
    blocking(move || sink.close()).await;
}
