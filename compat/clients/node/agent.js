// Drives kafkajs by the line protocol of package agent: one JSON request a line on standard input, one JSON answer a line on
// standard output, in order; a tail or member also writes events until it is stopped.
'use strict'

const readline = require('readline')
const { Kafka, AssignerProtocol, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const zstd = require('@bokuweb/zstd-wasm')
const lz4 = require('lz4-napi')
const version = require('kafkajs/package.json').version

const zstdReady = zstd.init()
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => { await zstdReady; return Buffer.from(zstd.compress(encoder.buffer)) },
  decompress: async buffer => { await zstdReady; return Buffer.from(zstd.decompress(buffer)) },
})
const codecs = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }

class Unsupported extends Error {}

const decode = text => (text === null || text === undefined ? null : Buffer.from(text, 'base64'))
const encode = data => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const write = message => process.stdout.write(JSON.stringify(message) + '\n')
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

// kafkajs keeps headers in an object: repeats of a name become a list.
function headers(record) {
  const out = {}
  for (const h of record.headers || []) {
    const value = decode(h.value)
    if (!(h.key in out)) out[h.key] = value
    else out[h.key] = [].concat(out[h.key], value)
  }
  return out
}

function node(partition, message) {
  const out = {
    partition, offset: Number(message.offset), timestamp: Number(message.timestamp), key: encode(message.key), value: encode(message.value),
  }
  const pairs = []
  for (const [key, values] of Object.entries(message.headers || {})) {
    for (const value of Array.isArray(values) ? values : [values]) pairs.push({ key, value: encode(value) })
  }
  if (pairs.length) out.headers = pairs
  return out
}

function client(req) {
  return new Kafka({
    brokers: [req.bootstrap], clientId: 'kafkajs-compat', retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 100 },
    logLevel: logLevel.WARN, logCreator: () => entry => process.stderr.write(JSON.stringify(entry) + '\n'),
  })
}

async function withAdmin(req, work) {
  const admin = client(req).admin({ retry: { retries: 3 } })
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

// The range assignor of the consumer protocol, which kafkajs does not bring: neighbouring partitions for each member, in the order
// of their ids.
const range = ({ cluster }) => ({
  name: 'range',
  version: 0,
  async assign({ members, topics }) {
    const ids = members.map(m => m.memberId).sort()
    const assignment = Object.fromEntries(ids.map(id => [id, {}]))
    for (const topic of topics) {
      const interested = ids.filter(id => {
        const member = members.find(m => m.memberId === id)
        return AssignerProtocol.MemberMetadata.decode(member.memberMetadata).topics.includes(topic)
      })
      const partitions = cluster.findTopicPartitionMetadata(topic).map(p => p.partitionId).sort((a, b) => a - b)
      const each = Math.floor(partitions.length / interested.length)
      const extra = partitions.length % interested.length
      interested.forEach((id, i) => {
        const from = i * each + Math.min(i, extra)
        assignment[id][topic] = partitions.slice(from, from + each + (i < extra ? 1 : 0))
      })
    }
    return ids.map(memberId => ({
      memberId, memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment: assignment[memberId], userData: Buffer.alloc(0) }),
    }))
  },
  protocol({ topics }) {
    return { name: 'range', metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }) }
  },
})

const operations = {
  version: async () => ({ version: 'kafkajs ' + version }),

  metadata: req => withAdmin(req, async admin => {
    const cluster = await admin.describeCluster()
    let topics
    try {
      topics = (await admin.fetchTopicMetadata(req.topic ? { topics: [req.topic] } : undefined)).topics
    } catch (e) {
      // A topic without leaders, just created, is an error of the whole call.
      if (!req.topic || !Number.isInteger(e.code)) throw e
      return { metadata: { brokers: [], topics: [{ name: req.topic, error: e.message, partitions: [] }] } }
    }
    return {
      metadata: {
        brokers: cluster.brokers.map(b => ({ id: b.nodeId, host: b.host, port: b.port })),
        topics: topics.map(t => ({
          name: t.name, partitions: t.partitions.map(p => ({ id: p.partitionId, leader: p.leader, replicas: p.replicas, isr: p.isr })),
        })),
      },
    }
  }),

  create: req => withAdmin(req, async admin => {
    const configEntries = Object.entries(req.config || {}).map(([name, value]) => ({ name, value }))
    const created = await admin.createTopics({
      waitForLeaders: false, topics: [{ topic: req.topic, numPartitions: req.partitions, replicationFactor: 1, configEntries }],
    })
    // It says false, and not more, of a topic that is there already.
    if (!created) throw Object.assign(new Error('the topic is there already'), { code: 36 })
  }),

  async produce(req) {
    const config = req.config || {}
    const idempotent = config['enable.idempotence'] === 'true'
    const producer = client(req).producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined, allowAutoTopicCreation: false })
    await producer.connect()
    try {
      const messages = req.records.map(r => ({
        key: decode(r.key), value: decode(r.value), partition: r.partition || 0, headers: headers(r),
        timestamp: r.timestamp ? String(r.timestamp) : undefined,
      }))
      const acks = config.acks === undefined || config.acks === 'all' ? -1 : Number(config.acks)
      const answers = await producer.send({ topic: req.topic, acks, compression: codecs[req.codec || 'none'], messages })
      // One answer a partition, with its first offset: the records went in order.
      const next = {}
      for (const a of answers) next[a.partition] = Number(a.baseOffset)
      return { offsets: messages.map(m => (m.partition in next ? next[m.partition]++ : -1)) }
    } finally {
      await producer.disconnect()
    }
  },

  // kafkajs consumes in groups only: a group of its own, in which every partition is sought to where it shall start.
  async consume(req) {
    const ends = new Map()
    const starts = new Map() // where the reading begins: at the end of a partition that nobody wants
    await withAdmin(req, async admin => {
      for (const p of await admin.fetchTopicOffsets(req.topic)) {
        const first = Number(p.low)
        const from = req.from === -2 ? first : Math.max(first, req.from || 0)
        const wanted = req.assign.includes(p.partition) && from < Number(p.high)
        starts.set(p.partition, wanted ? from : Number(p.high))
        if (wanted) ends.set(p.partition, Number(p.high))
      }
    })
    const records = []
    if (ends.size === 0) return { records }
    const consumer = client(req).consumer({ groupId: 'felix-compat-' + process.pid + '-' + Date.now(), maxWaitTimeInMs: 100, allowAutoTopicCreation: false })
    await consumer.connect()
    try {
      await consumer.subscribe({ topic: req.topic, fromBeginning: true })
      const ended = new Promise(resolve => {
        consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
          if (ends.has(payload.partition) && Number(payload.lastOffset) + 1 >= ends.get(payload.partition)) ends.delete(payload.partition)
          if (ends.size === 0) resolve()
        })
      })
      const crashed = new Promise((_, reject) => consumer.on(consumer.events.CRASH, e => reject(e.payload.error)))
      await consumer.run({
        autoCommit: false, eachBatchAutoResolve: true,
        eachBatch: async ({ batch }) => {
          if (!req.assign.includes(batch.partition)) return
          for (const m of batch.messages) {
            if (Number(m.offset) >= starts.get(batch.partition)) records.push(node(batch.partition, m))
          }
        },
      })
      // The library has joined and asked for the first records, and throws away what comes of a partition that was sought meanwhile.
      for (const [partition, offset] of starts) consumer.seek({ topic: req.topic, partition, offset: String(offset) })
      const late = pause(req.timeout_ms || 60000).then(() => { throw new Error(`${records.length} records; not at the end of ${[...ends.keys()]}`) })
      await Promise.race([ended, crashed, late])
    } finally {
      await consumer.disconnect()
    }
    records.sort((a, b) => a.partition - b.partition || a.offset - b.offset)
    return { records }
  },

  offsets: req => withAdmin(req, async admin => {
    const offsets = []
    for (const at of req.times) {
      const found = await admin.fetchTopicOffsetsByTimestamp(req.topic, at)
      offsets.push(Number(found.find(p => p.partition === (req.partition || 0)).offset))
    }
    return { offsets }
  }),

  watermarks: req => withAdmin(req, async admin => {
    const p = (await admin.fetchTopicOffsets(req.topic)).find(o => o.partition === (req.partition || 0))
    return { offsets: [Number(p.low), Number(p.high)] }
  }),

  delete: req => withAdmin(req, admin => admin.deleteTopics({ topics: [req.topic] })),

  alter: req => withAdmin(req, async admin => {
    const configEntries = Object.entries(req.config).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: req.topic, configEntries }] })
  }),

  configs: req => withAdmin(req, async admin => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: req.topic }] })
    return { values: Object.fromEntries(resources[0].configEntries.map(e => [e.configName, e.configValue || ''])) }
  }),

  groups: req => withAdmin(req, async admin => ({ groups: (await admin.listGroups()).groups.map(g => ({ id: g.groupId })) })),

  describe: req => withAdmin(req, async admin => {
    const { groups } = await admin.describeGroups([req.group.id])
    return { groups: groups.map(g => ({ id: g.groupId, state: g.state, members: g.members.map(m => m.clientId) })) }
  }),

  'delete-group': req => withAdmin(req, async admin => {
    try {
      await admin.deleteGroups([req.group.id])
    } catch (e) {
      throw e.groups ? e.groups[0].error : e
    }
  }),

  reset: req => withAdmin(req, admin => admin.setOffsets({
    groupId: req.group.id, topic: req.topic, partitions: req.assign.map(partition => ({ partition, offset: String(req.from || 0) })),
  })),

  committed: req => withAdmin(req, async admin => {
    const [topic] = await admin.fetchOffsets({ groupId: req.group.id, topics: [req.topic] })
    return { offsets: req.assign.map(p => Number(topic.partitions.find(o => o.partition === p).offset)) }
  }),
}

// A stream runs until stopped resolves.
const streams = {
  async member(req, stopped) {
    const g = req.group
    if (g.instance) throw new Unsupported('static members')
    if (g.assignor && g.assignor !== 'range') throw new Unsupported('assignor ' + g.assignor)
    const options = { groupId: g.id, allowAutoTopicCreation: false, maxWaitTimeInMs: 200 }
    if (g.assignor) options.partitionAssigners = [range]
    if (g.session_ms) {
      options.sessionTimeout = g.session_ms
      options.rebalanceTimeout = g.session_ms
      options.heartbeatInterval = g.session_ms / 10
    }
    const consumer = client(req).consumer(options)
    let owned = []
    let leaving = false
    const event = e => write({ at: Math.round((performance.timeOrigin + performance.now()) * 1000), ...e })
    const revoke = () => {
      if (owned.length) event({ owned: { revoked: owned } })
      owned = []
    }
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      if (leaving) return
      revoke()
      owned = payload.memberAssignment[req.topic] || []
      event({ owned: { assigned: owned } })
    })
    consumer.on(consumer.events.REBALANCING, revoke)
    await consumer.connect()
    try {
      await consumer.subscribe({ topic: req.topic, fromBeginning: true })
      await consumer.run({
        autoCommit: !g.commit,
        eachMessage: async ({ partition, message }) => {
          if (leaving) throw new Error('came while the member was leaving: the next owner gets it')
          event({ record: node(partition, message) })
          if (g.commit) await consumer.commitOffsets([{ topic: req.topic, partition, offset: String(Number(message.offset) + 1) }])
        },
      })
      await stopped
    } finally {
      // stop leaves the group: what comes from here on is not this member's any more.
      leaving = true
      revoke()
      await consumer.stop()
      await consumer.disconnect()
    }
  },
}

const ended = async work => {
  let res
  try {
    res = (await work()) || {}
  } catch (e) {
    res = { error: `${e.name}: ${e.message}`, code: Number.isInteger(e.code) ? e.code : 0, unsupported: e instanceof Unsupported }
  }
  write({ ...res, done: true })
}

async function main() {
  let running = null
  const stop = async () => {
    if (running) {
      running.stop()
      await running.end
      running = null
    }
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const req = JSON.parse(line)
    if (req.op in streams) {
      let resolve
      const stopped = new Promise(r => { resolve = r })
      running = { stop: resolve, end: ended(() => streams[req.op](req, stopped)) }
    } else if (req.op === 'stop') {
      await stop()
    } else if (req.op in operations) {
      await ended(() => operations[req.op](req))
    } else {
      write({ error: 'the library has no such call', unsupported: true, done: true })
    }
  }
  await stop()
  process.exit(0)
}

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'
main()
