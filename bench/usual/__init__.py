"""An order service built the usual way: what ours is measured beside. It is no part of the shop, and nothing imports it
but the bench.

It does the same work as ours for an order that is placed, paid, invoiced, sent, delivered and archived, and it is built
of what AWS publishes, each choice with the page that it is from:

- One table in the manner of "Using DynamoDB as a data store for an online shop" (DynamoDB developer guide,
  data-modeling-online-shop): an order's item collection holds its header, one orderItem for each product, its payment,
  its invoice and its shipment; two overloaded indexes that hold all attributes find orders and what was bought by
  customer, sales by product, invoices and shipments by their number. (The guide has one shipmentItem for each product,
  too, so that a warehouse finds its own: there is one warehouse here, and a shipment holds its quantities.)
- A line is in the indexes of sales from when it is paid: a sparse index (bp-indexes-general-sparse-indexes). The queue
  of open orders is one, too, its partitions sharded (bp-indexes-gsi-sharding).
- Best sellers are a materialized aggregation with an index whose sort key is the count (bp-gsi-aggregation), kept by a
  Lambda on the stream.
- An order, its lines and its stock are one TransactWriteItems (transaction-example.html: "Process an order").
- Handlers are Powertools': a resolver with validation, Logger, Metrics; `process_partial_response` for the stream and
  for SQS; its idempotency, in a table of its own, around whatever must not happen twice ("Idempotency": a payment;
  "Batch processing", "Idempotent record handler").
- Items are read and written through boto3's resource, copies and deletions through its `batch_writer`
  (boto3 guide, "Amazon DynamoDB", "Batch writing").
- Every item of an order but its invoice has a `ttl`, at which DynamoDB deletes it for nothing; the stream tells what is
  to be archived (AWS database blog, "Archive data from Amazon DynamoDB to Amazon S3 using TTL and Amazon Kinesis
  integration"). What that loses: what an order owns ends at times of its own, in any order. Of an order that is on its
  way for more than a month, and where DynamoDB is late with the header, some of it is gone before it is archived.
- Expired entries of activity go to Firehose, many in one object (AWS database blog, "Automatically archive items to S3
  using DynamoDB Time to Live (TTL) with AWS Lambda and Amazon Kinesis Firehose").
- Items stay as long as in ours: an order 395 days after its end, activity 90 days, mails 180, totals of a minute 30.
- Each function is a module with the clients it uses, made as it is imported (Lambda developer guide, "Best practices":
  clients are made outside of the handler). Tracer, which the samples have, too, is left out, as in ours; what it adds
  has rows of its own.

`PROMISES=same` in its environment adds what keeps the promises of ours (bench/usual/promises.py).

Where these leave a choice it is the cheaper one: reads are eventually consistent, a state is changed under a condition
without being read first, what is written at one time goes in one request. Idempotency is around a whole handler, as the
documentation has it, where something in it must not be done twice: an order, a payment, what adds up, a mail, an
invoice. Who only tells the bus, or keeps an object under its own name, has none.
"""
