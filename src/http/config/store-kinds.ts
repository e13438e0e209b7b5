/** The kinds of stores, the preferred one first. The dashboard imports this, so it must need nothing. */

export interface StoreKindEntry {
  readonly label: string
  /** Variables, all of one list, without which it is not available. */
  readonly variables: readonly (readonly string[])[]
  /** The binding without which it is not available, and a method of that. */
  readonly binding?: { readonly name: string; readonly method: string }
  /** These variables or this binding, as messages name them. */
  readonly needs: string
  /** It may receive every charge before it takes over (STORE_MIRROR). */
  readonly canMirror: boolean
  /** The command reaches it by a connection to Redis, or has it in its own memory; undefined: only a gateway can be asked. */
  readonly inCommand: 'redis' | 'memory' | undefined
}

export const STORE_KINDS = {
  redis: {
    label: 'Redis',
    variables: [['UPSTASH_REDIS_REST_URL', 'UPSTASH_REDIS_REST_TOKEN'], ['REDIS_SHARDS']],
    needs: 'UPSTASH_REDIS_REST_URL and its token',
    canMirror: true,
    inCommand: 'redis',
  },
  'durable-object': {
    label: 'Durable Objects',
    variables: [[]],
    binding: { name: 'LIMITS', method: 'idFromName' },
    needs: 'a binding LIMITS of Durable Objects',
    canMirror: true,
    inCommand: undefined,
  },
  memory: { label: 'Memory', variables: [[]], needs: 'nothing', canMirror: false, inCommand: 'memory' },
} as const satisfies Readonly<Record<string, StoreKindEntry>>

export type StoreKind = keyof typeof STORE_KINDS

/** @param kind as variables and answers name it @returns undefined for none */
export function findStoreKind(kind: unknown): StoreKindEntry | undefined {
  return typeof kind === 'string' && isStoreKind(kind) ? STORE_KINDS[kind] : undefined
}

function isStoreKind(kind: string): kind is StoreKind {
  return Object.hasOwn(STORE_KINDS, kind)
}
