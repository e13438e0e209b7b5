import { createClient } from '@redis/client'
import express from 'express'
import { redisStore } from 'sluice'
import { sluice } from 'sluice/node'

const { REDIS_URL, PORT = '3000' } = process.env
const redis = REDIS_URL ? createClient({ url: REDIS_URL }) : undefined
// Without await: the app starts while Redis is down.
redis?.connect()
const store = redis ? redisStore(redis) : undefined

const app = express()
app.use(sluice({ limits: '10/1s, 100/1m', by: 'token', store }))
app.post('/login', sluice({ name: 'login', limits: '5/1m', by: 'ip', store }), (_req, res) => res.send('welcome'))
app.get('/', (req, res) => res.json({ left: req.rateLimit.limits.map(({ remaining }) => remaining) }))

const server = app.listen(Number(PORT), () => console.log(`http://127.0.0.1:${server.address().port}`))
