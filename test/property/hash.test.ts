/** The hashes for every runtime are those of Node. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as native from '../../src/runtime/hash.ts'
import * as portable from '../../src/runtime/portable-hash.ts'
import { expectProperty } from '../support/property.ts'

// Over several blocks of 64 bytes, with characters of every length in UTF-8 and halves of them.
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: 'binary-ascii', maxLength: 300 }),
)
const secret = fc.option(fc.string({ unit: 'binary', minLength: 16, maxLength: 200 }), { nil: undefined })

test('the portable hashes of any text are those of node:crypto', () =>
  expectProperty(
    fc.asyncProperty(secret, fc.array(text, { minLength: 1, maxLength: 4 }), async (secret, texts) => {
      // One function makes several: none may leave anything behind for the next.
      const [expected, made] = [native.createSha256(secret), portable.createSha256(secret)]
      expect(texts.map(made)).toEqual(texts.map(expected))
      expect(texts.map(portable.sha1)).toEqual(texts.map(native.sha1))
    }),
    4_000,
  ))
