/** A test of Jest that requires the package. */
const { createLimiter } = require('sluice')
const { sluice } = require('sluice/node')

test('one of two is granted', async () => {
  const limiter = createLimiter({ limits: '1/1m' })
  expect((await limiter.take('a')).granted).toBe(true)
  expect((await limiter.take('a')).granted).toBe(false)
  expect(sluice({ limits: '1/1m', by: 'ip', log() {} })).toBeInstanceOf(Function)
})
