"""The usual shop: an order service built as AWS's guides and samples build one. Only the benchmarks import it.

It does the same work as our shop for an order that is placed, paid, invoiced, sent, delivered and archived. Each choice
names the page of AWS that it follows:

- The table follows "Using DynamoDB as a data store for an online shop" (DynamoDB developer guide,
  data-modeling-online-shop). The item collection of an order has its header, one orderItem for each product, its
  payment, invoice and shipment. Two overloaded indexes with all attributes find orders and purchases by customer,
  sales by product, and invoices and shipments by number. The guide also has one shipmentItem for each product, for
  several warehouses; this shop has one warehouse, so the shipment contains the quantities.
- A line enters the indexes of sales when it is paid: a sparse index (bp-indexes-general-sparse-indexes). The list of
  open orders is also a sparse index, with sharded partitions (bp-indexes-gsi-sharding).
- Best sellers are a materialized aggregation with an index whose sort key is the count (bp-gsi-aggregation). A Lambda
  on the stream updates them.
- One TransactWriteItems writes an order, its lines and its stock (transaction-example.html: "Process an order").
- Handlers use Powertools: a resolver with validation, Logger, Metrics, `process_partial_response` for the stream and
  SQS, and idempotency with its own table for all effects that must happen once ("Idempotency": a payment; "Batch
  processing", "Idempotent record handler").
- boto3's resource reads and writes items, its `batch_writer` writes copies and deletes items (boto3 guide, "Amazon
  DynamoDB", "Batch writing").
- Every item of an order except its invoice has a `ttl`, at which DynamoDB deletes it for free. The stream record of the
  deletion starts the archiving (AWS database blog, "Archive data from Amazon DynamoDB to Amazon S3 using TTL and Amazon
  Kinesis integration"). The disadvantage: DynamoDB deletes the items of an order in any order. If the delivery of an
  order takes more than a month, and DynamoDB deletes the header late, other items are lost before the archiving.
- Firehose writes many expired activity entries into one object (AWS database blog, "Automatically archive items to S3
  using DynamoDB Time to Live (TTL) with AWS Lambda and Amazon Kinesis Firehose").
- Items stay as long as in our shop: orders 395 days after their end, activity 90, mails 180, totals of a minute 30.
- Each function is a module that creates its clients at import (Lambda developer guide, "Best practices"). As in our
  shop, Tracer is left out, although the samples use it; the page has rows of its own for it.

`PROMISES=same` in the environment adds the parts that keep the promises of our shop (bench/usual/promises.py).

Where the guides leave a choice, this shop takes the cheaper one: eventually consistent reads, a conditional change of a
state without a read before it, and one request for all writes of a moment. As in the documentation, idempotency wraps a
whole handler if part of it must happen once: an order, a payment, sums, a mail, an invoice. A handler that only
publishes events, or stores an object under its own name, has no idempotency.
"""
