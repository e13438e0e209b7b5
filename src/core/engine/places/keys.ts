/** Where a key is counted: the hash tag of keys. */
import type { StoreCharge } from '../../model/charge.ts'

/** A key, or what is counted under one. */
export type Keyed = string | StoreCharge | { readonly charge: StoreCharge }

/** @returns the hash tag of a key, in its braces: the digest */
export function readTag(item: Keyed): string {
  const key = typeof item === 'string' ? item : 'key' in item ? item.key : item.charge.key
  return key.slice(Math.max(0, key.lastIndexOf('{')))
}
