import { createServer } from 'node:http'
import methodOverride from 'method-override'
import { listening } from './listening.js'

export async function listenExpress(name) {
  const { default: express } = await import(name)
  const app = express()
  for (const field of ['X-HTTP-Method', 'X-HTTP-Method-Override', 'X-Method-Override', '_method']) {
    app.use(methodOverride(field))
  }
  app.post('/login', (_, response) => response.set('X-Handler', 'login').send('login'))
  app.get('/users/:id', (_, response) => response.set('X-Handler', 'read').send('read'))
  app.delete('/users/:id', (_, response) => response.set('X-Handler', 'remove').send('remove'))
  return listening(createServer(app))
}
