/** The hashes for every runtime are those of Node. */
import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { createSha1 } from '../../src/core/runtime/hash.ts'
import { expectProperty } from '../support/property.ts'

// Over several blocks of 64 bytes, with characters of every length in UTF-8 and halves of them.
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.string({ unit: 'binary-ascii', maxLength: 300 }),
)
const secret = fc.option(fc.string({ unit: 'binary', minLength: 16, maxLength: 200 }), { nil: undefined })

test('the hashes of any text are those of node:crypto', () =>
  expectProperty(
    fc.asyncProperty(secret, fc.array(text, { minLength: 1, maxLength: 4 }), async (secret, texts) => {
      const create = () => (secret === undefined ? createHash('sha256') : createHmac('sha256', secret))
      const digests = texts.map((text) =>
        create()
          .update(JSON.stringify([text]))
          .digest()
          .subarray(0, 16),
      )
      // One function makes several: none may leave anything behind for the next.
      const digest = createDigest(secret)
      expect(texts.map((text) => digest([text]))).toEqual(digests.map((bytes) => bytes.toString('base64url')))
      const sha1s = texts.map((text) => createHash('sha1').update(text).digest('hex'))
      expect(await Promise.all(texts.map(createSha1))).toEqual(sha1s)
    }),
    4_000,
  ))
