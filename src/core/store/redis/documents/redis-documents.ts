/** Versioned documents in Redis. */
import {
  cutNote,
  type DocumentStore,
  type DocumentWrite,
  KEPT_VERSIONS,
  MAX_DOCUMENT_BYTES,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../../documents.ts'
import { createReplyError, RedisCalls, type RedisCallsOptions, toCount, toScript, toTexts } from '../redis-calls.ts'
import { LUA } from './lua.ts'

const READ_NEWEST = toScript(LUA['read-newest'].lua)
const READ_VERSION = toScript(LUA['read-version'].lua)
const READ_HISTORY = toScript(LUA['read-history'].lua)
const WRITE = toScript(LUA.write.lua)
/** Fields of a version in a reply, besides its text. */
const FIELDS = 5

/** A document in one hash of Redis. A reading that finds nothing new takes one EVALSHA and one HMGET. */
export class RedisDocuments implements DocumentStore {
  readonly #calls: RedisCalls
  readonly #keys: string[]

  constructor({ key, ...options }: RedisCallsOptions & { readonly key: string }) {
    this.#calls = new RedisCalls(options)
    this.#keys = [key]
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    const { version: knownVersion, id } = known ?? NO_DOCUMENT
    const [version, ...kept] = toTexts(await this.#calls.evaluate(READ_NEWEST, this.#keys, [knownVersion, id]))
    if (version === '0') return known?.version === 0 ? undefined : NO_DOCUMENT
    return kept.length === 0 ? undefined : toDocument([version, ...kept])
  }

  async readVersion(version: number): Promise<StoredDocument | undefined> {
    const reply = toTexts(await this.#calls.evaluate(READ_VERSION, this.#keys, [version]))
    return reply.length === 1 ? undefined : toDocument(reply)
  }

  async readHistory(): Promise<readonly Revision[]> {
    const reply = toTexts(await this.#calls.evaluate(READ_HISTORY, this.#keys, [KEPT_VERSIONS]))
    const count = Math.ceil(reply.length / FIELDS)
    return Array.from({ length: count }, (_, index) => toRevision(reply.slice(FIELDS * index, FIELDS * (index + 1))))
  }

  async write(write: DocumentWrite): Promise<Written> {
    const { text, expectedVersion, expectedId, actor, comment, kept = KEPT_VERSIONS } = write
    const id = crypto.randomUUID()
    const args = [expectedVersion, text, cutNote(actor), cutNote(comment), MAX_DOCUMENT_BYTES, kept, id]
    if (expectedId !== undefined) args.push(expectedId)
    const [kind, version, atMs] = toTexts(await this.#calls.evaluate(WRITE, this.#keys, args))
    switch (kind) {
      case 'written':
        return { kind, version: toCount(version), id, atMs: toCount(atMs) }
      case 'conflict':
      case 'too-large':
      case 'malformed':
        return { kind, version: toCount(version) }
      default:
        throw createReplyError()
    }
  }
}

function toDocument(reply: readonly (string | undefined)[]): StoredDocument {
  const [text] = reply.slice(FIELDS)
  if (text === undefined) throw createReplyError()
  return { ...toRevision(reply), text }
}

function toRevision([version, atMs, actor, comment, id]: readonly (string | undefined)[]): Revision {
  if (actor === undefined || comment === undefined || id === undefined) throw createReplyError()
  return { version: toCount(version), id, atMs: toCount(atMs), actor, comment }
}
